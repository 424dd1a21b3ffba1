import Actions
import ArgumentParser
import Foundation
import HTTP
import ReceiptService
import Support
import Text

/// The author of a command: the person of `RECEIPTD_TOKEN`, or the operator of this shell.
struct AuthorOptions: ParsableArguments {
  @Option(
    help: "The author, for the record, where RECEIPTD_TOKEN is not set. The default is SUDO_USER, else USER.")
  var by: String?

  func validate() throws {
    guard by == nil || Startup.token == nil else {
      throw ValidationError("--by: the author is the person of RECEIPTD_TOKEN; leave it out.")
    }
  }

  /// Refuses a command that has neither a token nor the name of an operator.
  func requireName() throws {
    if Startup.token == nil, name == nil { throw ValidationError("USER is not set; give --by.") }
  }

  private var name: String? { by ?? Startup.operatorName }

  /// The author of an action.
  /// - Parameter actor: the actor of `RECEIPTD_TOKEN`; `nil` without one.
  /// - Throws: ``SupportRefusal`` for a command without a token that needs one.
  func author(_ actor: SupportActor?, _ reason: String, in service: Service) async throws -> SupportAuthor {
    if let actor { return try SupportAuthor(by: actor, reason: reason) }
    guard try await service.people.mayActWithoutToken() else {
      throw SupportRefusal.tokenNeeded
    }
    // A container has no USER.
    return try SupportAuthor(by: .operatorNamed(name ?? "operator"), reason: reason)
  }
}

/// The options of an action of support: its author, its reason, and whether to write nothing.
struct SupportOptions: ParsableArguments {
  @OptionGroup var author: AuthorOptions

  @Option(help: "The reason for the action, for the record.")
  var reason: String

  @Flag(help: "Tell what it would do, and change nothing.")
  var dryRun = false

  func validate() throws { try author.requireName() }

  /// Performs an action of support and prints its result.
  /// - Parameter uses: the parts of the configuration whose warnings are logged.
  func perform<Action: SupportRequest>(
    _ action: Action, warningAbout uses: Set<ConfigurationUse> = []
  ) async throws where Action.Desk: ServiceDesk {
    try await Startup.withService(Action.operation, warningAbout: uses) { service, actor in
      do {
        let author = try await author.author(actor, reason, in: service)
        let answer = try await service.perform(action, by: author, isDryRun: dryRun)
        if dryRun { print("Dry run: nothing is written.") }
        print("\(answer)".wrappedForTerminal())
      } catch {
        throw Startup.failure("\(Action.operation.rawValue): \(Startup.sentence(error))")
      }
    }
  }
}

extension Startup {
  /// `RECEIPTD_TOKEN`; `nil` if it is not set.
  static var token: String? {
    ProcessInfo.processInfo.environment["RECEIPTD_TOKEN"].flatMap { $0.isEmpty ? nil : $0 }
  }

  /// The operator at the terminal. `sudo` and `receiptd-admin` name that person in SUDO_USER, and another one in USER.
  static var operatorName: String? {
    let environment = ProcessInfo.processInfo.environment
    return ["SUDO_USER", "USER"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
  }

  /// The actor of a command that only reads, for the record of what a look-up at the App Store repairs.
  /// - Parameter actor: the actor of `RECEIPTD_TOKEN`; `nil` without one.
  static func reader(_ actor: SupportActor?) -> SupportActor {
    actor ?? .operatorNamed(operatorName ?? "operator")
  }

  /// Runs `body` with a service, and closes the service.
  ///
  /// With `RECEIPTD_TOKEN` the command has the rights of that person. Without it the command has the rights of the
  /// database's role, which no check here could limit.
  ///
  /// - Parameters:
  ///   - operation: the operation of the command.
  ///   - uses: the parts of the configuration whose warnings are logged.
  ///   - body: gets the actor of `RECEIPTD_TOKEN`, or `nil`.
  static func withService(
    _ operation: SupportOperation, warningAbout uses: Set<ConfigurationUse> = [],
    _ body: (Service, SupportActor?) async throws -> Void
  ) async throws {
    let settings = try settings()
    // A write to a closed connection must fail with an error and not end the process.
    signal(SIGPIPE, SIG_IGN)
    let service = try await service(settings, logger(settings), warningAbout: uses)
    do {
      try await body(service, actor(of: operation, in: service))
    } catch {
      await service.close()
      throw error
    }
    await service.close()
  }

  /// The actor of `RECEIPTD_TOKEN`, whose role allows the operation; `nil` without a token.
  private static func actor(of operation: SupportOperation, in service: Service) async throws -> SupportActor?
  {
    guard let token else { return nil }
    do {
      let actor = try await service.signIn(token)
      try actor.check(operation)
      return actor
    } catch {
      throw failure("\(operation.rawValue): \(sentence(error))")
    }
  }

  /// An error as a sentence for the terminal.
  static func sentence(_ error: any Error) -> String {
    if let problem = error as? Problem { return "\(problem.message) \(problem.detail)" }
    return "\(error)"
  }
}
