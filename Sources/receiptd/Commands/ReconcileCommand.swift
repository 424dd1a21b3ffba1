import Actions
import ArgumentParser
import Foundation
import HTTP
import ReceiptService
import Text

/// `receiptd reconcile`
struct ReconcileCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reconcile",
    abstract: "Reads Apple's notification history and statuses since the last run, and repairs.",
    discussion: """
      The server does this every hour. The exit status is 1 if a request or a write failed. Repairs before the \
      failure stay, and the next run continues from there.
      """)

  @Option(help: "The start: a time such as 2026-01-31T00:00:00Z, or a number of days such as 7d.")
  var since: String?

  @Option(help: "Only the app with this bundle id.")
  var bundle: String?

  func validate() throws {
    guard let since else { return }
    let now = Date()
    guard let date = Self.date(since, before: now) else {
      throw ValidationError("--since must be a time such as 2026-01-31T00:00:00Z or days such as 7d.")
    }
    if date > now { throw ValidationError("--since must not be in the future.") }
  }

  func run() async throws {
    try await Startup.withService(.reconcile) { service, _ in
      let reports = await service.reconcile(
        since: since.flatMap { Self.date($0, before: Date()) }, bundleID: bundle)
      for report in reports {
        for line in report.lines { print(line.wrappedForTerminal()) }
      }
      if reports.isEmpty {
        let scope = bundle.map { "for \($0)" } ?? "for any app"
        throw Startup.failure("reconcile: APP_STORE_KEY: no App Store Connect key is configured \(scope)")
      }
      if reports.contains(where: { $0.failure != nil }) { throw ExitCode.failure }
    }
  }

  static func date(_ text: String, before now: Date) -> Date? {
    if text.hasSuffix("d"), let days = UInt16(text.dropLast()) {
      return now.addingTimeInterval(-Double(days) * 86_400)
    }
    return RFC3339.date(from: text)
  }
}
