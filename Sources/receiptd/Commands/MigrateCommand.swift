import ArgumentParser
import Configuration
import Foundation
import HTTP
import Logging
import Postgres
import ReceiptService

/// `receiptd migrate`
struct MigrateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "migrate",
    abstract: "Applies pending migrations.",
    discussion: """
      Any number of processes may run this at once. It waits up to a minute for a database that is starting.
      """)

  @Flag(help: "List all migrations with their state, and change nothing.")
  var status = false

  @Flag(
    help: """
      Apply pending migrations in one transaction and roll them back, as a test. It holds its locks to the end, so try it on \
      a copy of a database that is in use.
      """)
  var dryRun = false

  func validate() throws {
    if status && dryRun { throw ValidationError("--status and --dry-run exclude each other.") }
  }

  func run() async throws {
    let settings = try Startup.settings()
    let logger = Startup.logger(settings)
    try await Startup.checkPooler(settings, waits: true, logger)
    let pool = PostgresPool(configuration: settings.database, logger: logger)
    do {
      try await work(Migrator(pool: pool, folder: settings.migrationsFolder, logger: logger), logger)
    } catch {
      await pool.close()
      throw error
    }
    await pool.close()
  }

  private func work(_ migrator: Migrator, _ logger: Logger) async throws {
    if status {
      for entry in try await Startup.withMigrations(logger, { try await migrator.status() }) {
        print(Self.line(entry))
      }
    } else if dryRun {
      report(try await Startup.withMigrations(logger) { try await migrator.dryRun() }, "would be applied")
    } else {
      report(try await Startup.withMigrations(logger) { try await migrator.apply() }, "applied")
    }
  }

  private func report(_ entries: [MigrationEntry], _ verb: String) {
    if entries.isEmpty { print("nothing to do") }
    for entry in entries { print("\(entry.version)_\(entry.name): \(verb)") }
  }

  private static func line(_ entry: MigrationEntry) -> String {
    let state =
      switch entry.state {
      case .pending: "pending"
      case .applied(let date): "applied \(RFC3339.string(from: date))"
      case .unknown(let date):
        "applied \(RFC3339.string(from: date)), by a newer version; the file is missing here"
      case .removed(let date):
        "applied \(RFC3339.string(from: date)), before the migrations were folded; the file is missing here"
      case .changed(let date): "applied \(RFC3339.string(from: date)), but THE FILE HAS BEEN EDITED SINCE"
      }
    return "\(entry.version)_\(entry.name): \(state)"
  }
}
