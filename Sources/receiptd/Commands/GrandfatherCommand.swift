import ArgumentParser
import ReceiptService

/// `receiptd grandfather`
struct GrandfatherCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "grandfather",
    abstract: "Awards owners from before a date; can be run again.",
    discussion: """
      For apps with the key grandfather: every user whose row in the table that the app writes to was created \
      before the date gets the tier without end. The exit status is 1 if a table has no dates.
      """)

  @Option(help: "Only the app with this bundle id.")
  var bundle: String?

  @Flag(help: "Count the awards and make none.")
  var dryRun = false

  func run() async throws {
    try await Startup.withService(.grandfather) { service, _ in
      let reports: [GrandfatherReport]
      do {
        reports = try await service.grandfather(bundleID: bundle, isDryRun: dryRun)
      } catch {
        throw Startup.failure("grandfather: \(Startup.sentence(error))")
      }
      for report in reports { print(report.description.wrappedForTerminal()) }
      if reports.isEmpty {
        throw Startup.failure(
          "grandfather: \(bundle.map { "no app '\($0)'" } ?? "no app") with the key 'grandfather' is configured"
        )
      }
      if reports.contains(where: { !$0.problems.isEmpty }) { throw ExitCode.failure }
    }
  }
}
