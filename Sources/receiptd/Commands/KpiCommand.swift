import Actions
import ArgumentParser
import ReceiptService
import Text

/// `receiptd kpi`
struct KpiCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "kpi",
    abstract: "Counts the business numbers of days again.",
    discussion: """
      The server counts the current day every few minutes, and the last seven days after each midnight. Use this \
      command for older days with late notifications. kpi_daily shows the numbers.
      """)

  @Option(help: "A day in UTC, such as 2026-11-20.")
  var day: String?

  @Option(help: "Or the first of several days.")
  var from: String?

  @Option(help: "And the last of these days.")
  var to: String?

  func validate() throws { _ = try days() }

  func run() async throws {
    let (first, last) = try days()
    try await Startup.withService(.kpi) { service, _ in
      do {
        try await service.countKPIs(from: first, through: last) { day, rows in
          print("\(day): \(rows) \(rows == 1 ? "row" : "rows")")
        }
      } catch {
        throw Startup.failure("kpi: \(Startup.sentence(error))")
      }
    }
  }

  private func days() throws -> (Day, Day) {
    switch (day, from, to) {
    case (let day?, nil, nil): return (try Self.parse(day, "--day"), try Self.parse(day, "--day"))
    case (nil, let from?, let to?): return (try Self.parse(from, "--from"), try Self.parse(to, "--to"))
    default: throw ValidationError("Give --day, or --from and --to.")
    }
  }

  private static func parse(_ text: String, _ name: String) throws -> Day {
    guard let day = Day(text) else { throw ValidationError("\(name) must be a day such as 2026-11-20.") }
    return day
  }
}
