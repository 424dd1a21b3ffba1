import ArgumentParser
import Foundation
import ReceiptService

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

  @Flag(help: "Count the events and send nothing.")
  var dryRun = false

  @OptionGroup var options: SupportOptions

  func validate() throws { _ = try span(at: Date()) }

  func run() async throws {
    let span = try span(at: Date())
    try await options.performWithService(.replayEvents, warningAbout: [.deliveries]) { service, author in
      try await service.replayEvents(in: span, bundleID: bundle, type: type, isDryRun: dryRun, by: author)
    }
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
