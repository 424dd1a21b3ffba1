import ArgumentParser
import Foundation
import HTTP
import Postgres
import ReceiptService

/// The options of every action of support: its author and its reason.
struct SupportOptions: ParsableArguments {
  @Option(help: "The author of the action, for the record. The default is SUDO_USER, else USER.")
  var by = Self.person(in: ProcessInfo.processInfo.environment)

  @Option(help: "The reason for the action, for the record.")
  var reason: String

  func validate() throws {
    if by.isEmpty { throw ValidationError("USER is not set; give --by.") }
  }

  /// The person at the terminal. `sudo` and `receiptd-admin` name that person in SUDO_USER, and another one in USER.
  static func person(in environment: [String: String]) -> String {
    ["SUDO_USER", "USER"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty } ?? ""
  }

  /// Performs an action of support and prints its result.
  func perform<Answer: CustomStringConvertible>(
    _ command: String, _ action: (SupportDesk, SupportAuthor) async throws -> Answer
  ) async throws {
    try await performWithService(command) { service, author in try await action(service.support, author) }
  }

  /// Performs an action of the service and prints its result.
  /// - Parameter uses: the parts of the configuration whose warnings are logged.
  func performWithService<Answer: CustomStringConvertible>(
    _ command: String, warningAbout uses: Set<ConfigurationUse> = [],
    _ action: (Service, SupportAuthor) async throws -> Answer
  ) async throws {
    try await Startup.withService(warningAbout: uses) { service in
      do {
        print("\(try await action(service, SupportAuthor(by: by, reason: reason)))".wrappedForTerminal())
      } catch {
        throw Startup.failure("\(command): \(Startup.sentence(error))")
      }
    }
  }
}

extension Startup {
  /// Runs `body` with a service, and closes the service.
  /// - Parameter uses: the parts of the configuration whose warnings are logged.
  static func withService(
    warningAbout uses: Set<ConfigurationUse> = [], _ body: (Service) async throws -> Void
  ) async throws {
    let settings = try settings()
    let service = try await service(settings, logger(settings), warningAbout: uses)
    do {
      try await body(service)
    } catch {
      await service.close()
      throw error
    }
    await service.close()
  }

  /// An error as a sentence for the terminal.
  static func sentence(_ error: any Error) -> String {
    if let problem = error as? Problem { return "\(problem.message) \(problem.detail)" }
    return "\(error)"
  }
}
