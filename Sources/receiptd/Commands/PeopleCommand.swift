import Actions
import ArgumentParser
import Foundation
import HTTP
import ReceiptService

/// `receiptd people`
struct PeopleCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "people",
    abstract: "Adds, lists and removes the people who work with receiptd.",
    discussion: """
      A person has a token and a role: numbers (figures, no customer data), agent (customers, short grants and trials) \
      or lead (everything). The token signs in to the support API, and to commands as RECEIPTD_TOKEN.
      """,
    subcommands: [Add.self, List.self, Remove.self])

  /// `receiptd people add`
  struct Add: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "add", abstract: "Adds a person, and prints the token once.",
      discussion: "A person who was removed can be added again, with a new token.")

    @Argument(help: "The name, as records show it.")
    var name: String

    @Option(help: "numbers, agent or lead.")
    var role: SupportRole

    @Option(help: "The reason, for the record.")
    var reason = "added by hand"

    @OptionGroup var author: AuthorOptions

    func run() async throws {
      try await Startup.withPeople { service, actor in
        try await service.perform(
          AddPersonRequest(name: name, role: role), by: author.author(actor, reason, in: service))
      }
    }
  }

  /// `receiptd people list`
  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list", abstract: "Lists all people, with their roles and the last use of their tokens.")

    @Flag(help: "The same as JSON, on one line.")
    var json = false

    func run() async throws {
      try await Startup.withPeople { service, _ in
        let list = try await service.people.list()
        return json ? String(decoding: try JSONCoding.encode(list), as: UTF8.self) : list.description
      }
    }
  }

  /// `receiptd people remove`
  struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "remove", abstract: "Ends a person's token now.",
      discussion: "The person's name stays in the record of actions.")

    @Argument(help: "The name.")
    var name: String

    @Option(help: "The reason, for the record.")
    var reason = "removed by hand"

    @OptionGroup var author: AuthorOptions

    func run() async throws {
      try await Startup.withPeople { service, actor in
        try await service.perform(
          RemovePersonRequest(name: name), by: author.author(actor, reason, in: service))
      }
    }
  }
}

extension Startup {
  /// Runs a subcommand of `people` and prints its result.
  fileprivate static func withPeople(
    _ body: (Service, SupportActor?) async throws -> any CustomStringConvertible
  ) async throws {
    try await withService(.people) { service, actor in
      do {
        print(try await body(service, actor))
      } catch {
        throw failure("people: \(sentence(error))")
      }
    }
  }
}

extension SupportRole: ExpressibleByArgument {}
