import Actions
import ArgumentParser
import Deliveries
import Foundation
import HTTP
import Identifiers
import Ledger
import Postgres
import ReceiptService

/// The commands on notifications and waiting work.
enum ReplayCommands {
  static let all: [any ParsableCommand.Type] = [
    ReplayCommand.self, ReplayEventsCommand.self, RequeueCommand.self,
  ]
}

/// `receiptd replay`
struct ReplayCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "replay",
    abstract: "Processes kept notifications again.",
    discussion: """
      A start or a reload replays waiting notifications that it may accept; support_waiting_notifications counts \
      them. The exit status is 1, with the reason, if a notification still waits. One that fails ends the command.
      """)

  @Argument(
    help: ArgumentHelp("Apple's notificationUUID, of one or several.", valueName: "notification-uuid"),
    transform: { text in
      guard let uuid = UUID(rfc9562: text) else { throw ValidationError("\(text) is not a UUID.") }
      return uuid
    })
  var notificationUUIDs: [UUID]

  @Option(help: "The reason for the replay, for the record.")
  var reason = "replayed by hand"

  @OptionGroup var author: AuthorOptions

  func run() async throws {
    try await Startup.withService(.replay) { service, actor in
      var areProcessed = true
      for uuid in notificationUUIDs {
        let result: ReplayResult
        do {
          result = try await service.perform(
            ReplayRequest(notificationUUID: uuid), by: author.author(actor, reason, in: service))
        } catch {
          throw Startup.failure("replay: \(Self.reason(error))")
        }
        print("\(uuid.uuidString.lowercased()): \(result)")
        areProcessed = areProcessed && result.isProcessed
      }
      if !areProcessed { throw ExitCode.failure }
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
    abstract: "Tries deliveries and other queued work again.",
    discussion: """
      support_work lists what waits and what was given up. A delivery sends the customer's current state, and reopens a \
      disabled destination. A call to the App Store is made until its deadline.
      """)

  @Argument(
    help: ArgumentHelp(
      "Rows of support_work: the id of a delivery, or QUEUE:ID, such as store_calls:17.", valueName: "rows"),
    transform: { text in
      guard let row = WorkRow(text) else { throw ValidationError("\(text) is not an id or QUEUE:ID.") }
      return row
    })
  var rows: [WorkRow] = []

  @Option(help: "Or an app's bundle id, for all its deliveries that were given up.")
  var bundle: String?

  @OptionGroup var options: SupportOptions

  func validate() throws {
    if rows.isEmpty == (bundle == nil) { throw ValidationError("Give rows of support_work, or --bundle.") }
  }

  func run() async throws {
    try await options.perform(
      bundle.map(RequeueRequest.init(bundleID:)) ?? RequeueRequest(rows: rows), warningAbout: [.deliveries])
  }
}
