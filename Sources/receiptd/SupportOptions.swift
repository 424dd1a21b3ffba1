import ArgumentParser
import FoundationEssentials
import HTTP
import Postgres
import ReceiptService

/// What every action of support takes: who does it, and why.
struct SupportOptions: ParsableArguments {
  @Option(help: "Who does it; written down. By default the user of this shell.")
  var by = ProcessInfo.processInfo.environment["USER"] ?? ""

  @Option(help: "Why; written down.")
  var reason: String

  func validate() throws {
    if by.isEmpty { throw ValidationError("--by is needed: USER is not set.") }
  }

  /// Does one thing at the support desk and says in a line what came of it.
  func perform<Answer: CustomStringConvertible>(
    _ command: String, _ action: (SupportDesk, SupportAuthor) async throws -> Answer
  ) async throws {
    try await performing(command) { service, author in try await action(service.support, author) }
  }

  /// The same, with all of the service at hand.
  func performing<Answer: CustomStringConvertible>(
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
  /// Runs `body` with the product put together, and takes it apart again.
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

  /// What went wrong, for a person at a terminal.
  static func sentence(_ error: any Error) -> String {
    if let problem = error as? Problem { return "\(problem.message) \(problem.detail)" }
    return "\(error)"
  }
}
