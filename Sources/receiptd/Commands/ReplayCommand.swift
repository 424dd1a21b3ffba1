import ArgumentParser
import Foundation
import HTTP
import Identifiers
import Postgres
import ReceiptService

/// `receiptd replay`
struct ReplayCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "replay",
    abstract: "Processes a kept notification again.",
    discussion: """
      A start or a reload replays waiting notifications that it may accept; support_waiting_notifications counts \
      them. The exit status is 1, with the reason, if the notification still waits.
      """)

  @Argument(
    help: "Apple's notificationUUID.",
    transform: { text in
      guard let uuid = UUID(rfc9562: text) else { throw ValidationError("\(text) is not a UUID.") }
      return uuid
    })
  var notificationUUID: UUID

  @Option(help: "The reason for the replay, for the record.")
  var reason = "replayed by hand"

  @OptionGroup var author: AuthorOptions

  func run() async throws {
    try await Startup.withService(.replay) { service, actor in
      let result: ReplayResult
      do {
        result = try await service.replay(
          notificationUUID, by: author.author(actor, reason, in: service))
      } catch {
        throw Startup.failure("replay: \(Self.reason(error))")
      }
      let words = result.failure.map { "still waits: \($0)" } ?? result.outcome
      print("\(notificationUUID.uuidString.lowercased()): \(words)")
      if !result.isProcessed { throw ExitCode.failure }
    }
  }

  /// The code of docs/api.md, and a sentence.
  private static func reason(_ error: any Error) -> String {
    switch error {
    case ReplayFailure.notKept: "not_found: \(error)"
    case let failure as ReplayFailure: failure.description
    case is SupportRefusal: Startup.sentence(error)
    case let problem as Problem: "\(problem.code.rawValue): \(problem.detail)"
    case let error as PostgresError where error.isUnavailable: "database_unavailable: \(error)"
    default: "internal: the notification could not be processed: \(error)"
    }
  }
}
