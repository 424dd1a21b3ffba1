import ArgumentParser
import Postgres
import ReceiptService

/// `receiptd partition`
struct Partition: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Divides notifications or transactions, or both, into months.",
    discussion: """
      For whoever has hundreds of millions of them; docs/scaling.md says what it brings and what it costs. Servers go on \
      working, but must all be of this version. DATABASE_URL names the owner of the tables. No row is moved, no \
      disk is needed; every row is read once. What is divided already stays as it is, and there is no way back but a \
      copy.
      """)

  @Argument(help: "notifications, transactions")
  var tables: [MonthlyTable]

  func run() async throws {
    let settings = try Startup.settings()
    let pool = PostgresPool(configuration: settings.database, logger: Startup.logger(settings))
    do {
      for table in tables {
        let isDivided = try await Partitioning(pool: pool).divide(table) { print($0) }
        print("\(table.rawValue): \(isDivided ? "divided into months" : "had been divided before")")
      }
    } catch {
      await pool.close()
      throw Startup.failure("partition: \(error)")
    }
    await pool.close()
  }
}

extension MonthlyTable: ExpressibleByArgument {}
