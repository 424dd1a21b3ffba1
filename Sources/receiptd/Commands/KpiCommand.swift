import Actions
import ArgumentParser
import Foundation
import Numbers
import ReceiptService
import Text

/// `receiptd acquisition-cost`
struct AcquisitionCostCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "acquisition-cost",
    abstract: "Reads what was spent to win customers, for CAC beside LTV.",
    discussion: """
      The file is CSV with month (2026-11), bundle_id, currency, amount and optionally channel. It replaces the rows of each month and app that \
      it names. kpi_acquisition shows the result.
      """)

  @Option(name: .customLong("from"), help: ArgumentHelp("The file.", valueName: "FILE.csv"))
  var file: String

  @Option(help: "The reason, for the record.")
  var reason = "read from a file"

  @OptionGroup var author: AuthorOptions

  @Flag(help: "Check the file and write nothing.")
  var dryRun = false

  func validate() throws { try author.requireName() }

  func run() async throws {
    guard let text = try? String(contentsOfFile: file, encoding: .utf8) else {
      throw Startup.failure("acquisition-cost: cannot read \(file) as UTF-8 text")
    }
    try await Startup.withService(.acquisitionCost) { service, actor in
      do {
        let author = try await author.author(actor, reason, in: service)
        let request = AcquisitionCostRequest(csv: text)
        print("\(try await service.perform(request, by: author, isDryRun: dryRun))".wrappedForTerminal())
      } catch {
        throw Startup.failure("acquisition-cost: \(file): \(Startup.sentence(error))")
      }
    }
  }
}

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
