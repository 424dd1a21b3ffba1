import Actions
import ArgumentParser
import Deliveries
import Foundation
import HTTP
import Identifiers
import Ledger
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
        result = try await service.perform(
          ReplayRequest(notificationUUID: notificationUUID), by: author.author(actor, reason, in: service))
      } catch {
        throw Startup.failure("replay: \(Self.reason(error))")
      }
      print("\(notificationUUID.uuidString.lowercased()): \(result)")
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

/// `receiptd replay-events`
struct ReplayEventsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "replay-events",
    abstract: "Sends the lifecycle events of a span to the webhooks again.",
    discussion: """
      The span is when receiptd learned the events. They have the ids of their first delivery, so a receiver that has \
      an event ignores it. Events that were too old to be sent are sent too. Events are kept for 90 days.
      """)

  @Option(help: "The start: a time such as 2026-01-31T00:00:00Z, or a number of days such as 7d.")
  var since: String

  @Option(help: "The end, in the same forms. The default is now.")
  var until: String?

  @Option(help: "Only the app with this bundle id.")
  var bundle: String?

  @Option(help: "Only events of this type, such as renewed.")
  var type: String?

  @OptionGroup var options: SupportOptions

  func validate() throws { _ = try span(at: Date()) }

  func run() async throws {
    let span = try span(at: Date())
    try await options.perform(
      ReplayEventsRequest(
        since: span.lowerBound, until: span.upperBound, bundleID: bundle, type: type),
      warningAbout: [.deliveries])
  }

  private func span(at now: Date) throws -> Range<Date> {
    guard let start = ReconcileCommand.date(since, before: now) else {
      throw ValidationError("--since must be a time such as 2026-01-31T00:00:00Z or days such as 7d.")
    }
    guard let end = until.map({ ReconcileCommand.date($0, before: now) }) ?? now else {
      throw ValidationError("--until must be a time such as 2026-01-31T00:00:00Z or days such as 7d.")
    }
    guard start < end else { throw ValidationError("--since must be before --until.") }
    return start..<end
  }
}

/// `receiptd requeue`
struct RequeueCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "requeue",
    abstract: "Delivers a customer's state again to CloudKit or a webhook.",
    discussion: """
      It sends the customer's current state, and reopens a disabled destination. support_outbox lists the \
      deliveries that wait and those that were given up.
      """)

  @Argument(help: "The id of a delivery in support_outbox.")
  var id: Int64?

  @Option(help: "Or an app's bundle id, for all its deliveries that were given up.")
  var bundle: String?

  @OptionGroup var options: SupportOptions

  func validate() throws {
    if (id == nil) == (bundle == nil) { throw ValidationError("Give the id of a delivery, or --bundle.") }
  }

  func run() async throws {
    try await options.perform(
      id.map(RequeueRequest.init(outbox:)) ?? RequeueRequest(bundleID: bundle ?? ""),
      warningAbout: [.deliveries])
  }
}
