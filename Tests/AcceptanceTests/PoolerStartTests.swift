import Foundation
import Postgres
import TestDatabase
import TestProcess
import Testing

/// `receiptd` behind a PgBouncer that `DATABASE_POOLER` does not name.
@Suite(.timeLimit(.minutes(10))) struct PoolerStartTests {
  /// PgBouncer often ignores settings at login, since other clients send them.
  private static let ignoring = ["ignore_startup_parameters": "options"]

  private static let migrations = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../migrations").standardizedFileURL.path

  private static func withPooler(
    in mode: PrivatePgBouncer.Mode, _ settings: [String: String], saying setting: String? = nil,
    _ body: ([String: String]) async throws -> Void
  ) async throws {
    try await withTestDatabase { database in
      let folder = FileManager.default.temporaryDirectory.appending(path: "receiptd-\(UUID())")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(at: folder) }
      let apps = folder.appending(path: "apps.json")
      try Data(Stage.one.utf8).write(to: apps)
      let pooler = try await PrivatePgBouncer.start(before: database, in: mode, settings: settings)
      var environment = ProcessInfo.processInfo.environment
      environment["DATABASE_URL"] = database.uri(port: pooler.port)
      environment["DATABASE_POOLER"] = setting
      environment["RECEIPTD_CONFIG"] = apps.path
      environment["RECEIPTD_MIGRATIONS"] = Self.migrations
      do {
        try await body(environment)
      } catch {
        try await pooler.remove()
        throw error
      }
      try await pooler.remove()
    }
  }

  private static func run(_ command: String, _ environment: [String: String]) async throws -> Command.Result {
    try await Command(ReceiptdProcess.executable.path, [command], environment: environment).run()
  }

  @Test(arguments: ["serve", "migrate"], [nil, "session"])
  func `receiptd refuses to start behind a pooler in transaction mode that DATABASE_POOLER does not name`(
    command: String, setting: String?
  ) async throws {
    try await Self.withPooler(in: .transaction, Self.ignoring, saying: setting) { environment in
      let result = try await Self.run(command, environment)
      #expect(result.status == 1)
      let lines = result.complaint.split(separator: "\n").filter { $0.hasPrefix("receiptd: ") }
      #expect(
        lines == [
          "receiptd: DATABASE_POOLER: DATABASE_URL leads to a pooler in transaction mode; set DATABASE_POOLER=transaction"
        ], "\(result.complaint)")
    }
  }

  @Test func `receiptd refuses to start at once behind an unnamed pooler that refuses settings at login`()
    async throws
  {
    try await Self.withPooler(in: .session, [:]) { environment in
      let result = try await Self.run("migrate", environment)
      #expect(result.status == 1)
      #expect(result.complaint.contains("DATABASE_POOLER: "), "\(result.complaint)")
      #expect(result.complaint.contains("set DATABASE_POOLER=session"))
    }
  }

  @Test func `receiptd warns about a pooler in session mode that DATABASE_POOLER does not name`() async throws
  {
    try await Self.withPooler(in: .session, Self.ignoring) { environment in
      let result = try await Self.run("migrate", environment)
      #expect(result.status == 0, "\(result.complaint)")
      #expect(result.complaint.contains("set DATABASE_POOLER=session"))
    }
  }

  @Test(arguments: PrivatePgBouncer.Mode.allCases)
  func `receiptd starts behind a pooler that DATABASE_POOLER names`(mode: PrivatePgBouncer.Mode) async throws
  {
    try await Self.withPooler(in: mode, Self.ignoring, saying: mode.rawValue) { environment in
      let result = try await Self.run("migrate", environment)
      #expect(result.status == 0, "\(result.complaint)")
      #expect(!result.complaint.contains("DATABASE_POOLER"))
    }
  }

  @Test func `the doctor reports a pooler in transaction mode`() async throws {
    try await Self.withPooler(in: .transaction, Self.ignoring) { environment in
      let result = try await Self.run("doctor", environment)
      #expect(result.status == 1)
      #expect(
        result.text.replacing("\n    ", with: " ").contains(
          "FAIL  pooler: DATABASE_URL leads to a pooler in transaction mode; set DATABASE_POOLER=transaction"),
        "\(result.text)")
      #expect(result.text.contains("ok    database: PostgreSQL"))
    }
  }
}
