import ArgumentParser
import ReceiptService

/// `receiptd kpi`
struct Kpi: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Counts the business numbers of days anew.",
    discussion: """
      The server does so by itself: the running day every few minutes, the last seven after each midnight. This is for \
      older days, about which something came later than that. kpi_daily shows what was counted.
      """)

  @Option(help: "The day, UTC, such as 2026-11-20.")
  var day: String?

  @Option(help: "Or several: the first of them.")
  var from: String?

  @Option(help: "And the last.")
  var to: String?

  func validate() throws { _ = try days() }

  func run() async throws {
    let (first, last) = try days()
    try await Startup.withService { service in
      do {
        try await service.countNumbers(from: first, through: last) { day, rows in
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
    default: throw ValidationError("Either --day is needed, or --from and --to.")
    }
  }

  private static func parse(_ text: String, _ name: String) throws -> Day {
    guard let day = Day(text) else { throw ValidationError("\(name) must be a day such as 2026-11-20.") }
    return day
  }
}
