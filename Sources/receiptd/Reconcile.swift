import ArgumentParser
import FoundationEssentials
import Glibc
import HTTP
import ReceiptService

/// `receiptd reconcile`
struct Reconcile: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Reads Apple's notification history and statuses since the last run, and repairs.",
    discussion: """
      The server does so by itself every hour. Ends with status 1 if anything could not be asked about or \
      taken in; what was repaired stays repaired, and the next run goes on from there.
      """)

  @Option(help: "Begin here: a time such as 2026-01-31T00:00:00Z, or a number of days such as 7d.")
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
    let settings = try Startup.settings()
    // As in serve: a connection that goes away shall be an error, not the end of the process.
    signal(SIGPIPE, SIG_IGN)
    let service = try await Startup.service(settings, Startup.logger(settings))
    let reports = await service.reconcile(
      since: since.flatMap { Self.date($0, before: Date()) }, bundleID: bundle)
    await service.close()
    for report in reports {
      for line in report.lines { print(line) }
    }
    if reports.isEmpty {
      let whose = bundle.map { "for \($0)" } ?? "for any app"
      throw Startup.failure("reconcile: APP_STORE_KEY: no App Store Connect key is configured \(whose)")
    }
    if reports.contains(where: { $0.failure != nil }) { throw ExitCode.failure }
  }

  static func date(_ text: String, before now: Date) -> Date? {
    if text.hasSuffix("d"), let days = UInt16(text.dropLast()) {
      return now.addingTimeInterval(-Double(days) * 86_400)
    }
    return RFC3339.date(from: text)
  }
}
