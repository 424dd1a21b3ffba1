import ArgumentParser
import Foundation
import HTTP
import Postgres
import ReceiptService

/// The options of every action of support: its author and its reason.
struct SupportOptions: ParsableArguments {
  @Option(help: "The author of the action, for the record. The default is the user of this shell.")
  var by = ProcessInfo.processInfo.environment["USER"] ?? ""

  @Option(help: "The reason for the action, for the record.")
  var reason: String

  func validate() throws {
    if by.isEmpty { throw ValidationError("USER is not set; give --by.") }
  }

  /// Performs an action of support and prints its result.
  func perform<Answer: CustomStringConvertible>(
    _ command: String, _ action: (SupportDesk, SupportAuthor) async throws -> Answer
  ) async throws {
    try await performWithService(command) { service, author in try await action(service.support, author) }
  }

  /// Performs an action of the service and prints its result.
  func performWithService<Answer: CustomStringConvertible>(
    _ command: String, _ action: (Service, SupportAuthor) async throws -> Answer
  ) async throws {
    try await Startup.withService { service in
      do {
        print(try await action(service, SupportAuthor(by: by, reason: reason)))
      } catch {
        throw Startup.failure("\(command): \(Startup.sentence(error))")
      }
    }
  }
}

extension Startup {
  /// Runs `body` with a service, and closes the service.
  static func withService(_ body: (Service) async throws -> Void) async throws {
    let settings = try settings()
    let service = try await service(settings, logger(settings))
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
