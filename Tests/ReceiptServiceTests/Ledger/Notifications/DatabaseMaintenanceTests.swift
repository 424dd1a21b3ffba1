import AppStoreSimulator
import Foundation
import HTTPTypes
import Logging
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// An administrator restarts the database, ends its sessions, or restores it, while receiptd runs.
@Suite(.timeLimit(.minutes(10))) struct DatabaseMaintenanceTests {
  @Test func `a restart of the database between two requests fails no request`() async throws {
    let postgres = try await PrivatePostgres.start()
    let harness = try await Harness(
      databaseURL: postgres.uri, configuration: TestApps.json, databaseTimeout: .seconds(60))
    let failure: (any Error)?
    do {
      try await harness.service.migrator.apply()
      for _ in 0..<3 {
        try await harness.askAtOnce(times: 24)
        #expect(harness.service.pool.status.idle > 1)
        try await postgres.restart()
        try await harness.askAtOnce(times: 24)
      }
      failure = nil
    } catch {
      failure = error
    }
    await harness.stop()
    try await postgres.remove()
    if let failure { throw failure }
  }

  @Test func `database sessions that an administrator ends fail no request`() async throws {
    try await withHarness { harness in
      let administrator = try PostgresPool(
        configuration: PostgresConfiguration(uri: try #require(harness.environment["DATABASE_URL"])))
      for _ in 0..<10 {
        try await harness.askAtOnce(times: 24)
        _ = try await administrator.query(
          """
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'receiptd' AND state = 'idle'
          """)
      }
      try await harness.askAtOnce(times: 24)
      await administrator.close()
    }
  }

  /// An object that a restore has not created yet, and the statement that creates it.
  private static let damages = [
    (
      "ALTER TABLE subscriptions RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO subscriptions",
      "42P01"
    ),
    (
      "ALTER TABLE subscriptions RENAME COLUMN phase_starts TO elsewhere",
      "ALTER TABLE subscriptions RENAME COLUMN elsewhere TO phase_starts", "42703"
    ),
    ("ALTER SCHEMA public RENAME TO elsewhere", "ALTER SCHEMA elsewhere RENAME TO public", "42P01"),
  ]

  @Test(arguments: damages)
  func `requests on an incomplete schema get 503, and the log names the missing object`(
    damage: String, repair: String, sqlState: String
  ) async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let lines = LogLines()
      let harness = try await Harness(
        databaseURL: database.uri, configuration: TestApps.json, databaseTimeout: .seconds(60),
        logger: Logger(label: "tests") { _ in lines })
      try await harness.askAtOnce(times: 8)
      let user = UUID()
      let token = try await harness.token(for: user)
      let during = try harness.buy(token: user)
      let administrator = try database.pool()
      _ = try await administrator.query(Query(unescaped: damage))
      for _ in 0..<2 {
        for answer in [
          try await harness.notify(during.notification.signedPayload),
          try await harness.validate(["signedTransaction": during.signedTransaction], token: token),
          try await harness.profile(of: user, token: token),
          try await harness.sync([during.signedTransaction], user: user, token: token),
        ] {
          #expect(answer.status == 503)
          #expect(answer.code == "database_unavailable")
          #expect(answer.headers[.retryAfter] != nil)
        }
      }
      #expect(lines.all.contains { $0.contains("lacks") && $0.contains(sqlState) })
      _ = try await administrator.query(Query(unescaped: repair))
      #expect(try await harness.notify(during.notification.signedPayload).status == 200)
      #expect(try await harness.row(of: during.originalTransactionID).userID == user)
      #expect(try await harness.premium(user).bool("isPremium") == true)
      let unprocessed = try await harness.pool.query(
        "SELECT count(*) FROM notifications WHERE processed_at IS NULL")[0].decode("count", as: Int.self)
      #expect(unprocessed == 0)
      await administrator.close()
      await harness.stop()
    }
  }

  @Test func `readyz names the missing tables`() async throws {
    try await withHarness { harness in
      #expect(try await harness.send(.get, "/readyz", to: harness.adminAddress).status == 200)
      _ = try await harness.pool.query("ALTER TABLE subscriptions RENAME TO elsewhere")
      let missing = try await harness.send(.get, "/readyz", to: harness.adminAddress)
      #expect(missing.status == 503)
      #expect(missing.string("database") == "tables are missing: subscriptions")
      _ = try await harness.pool.query("ALTER TABLE elsewhere RENAME TO subscriptions")
      #expect(try await harness.send(.get, "/readyz", to: harness.adminAddress).status == 200)
    }
  }
}

extension Harness {
  /// Sends requests of several kinds concurrently; each must succeed.
  fileprivate func askAtOnce(times: Int) async throws {
    let purchases = try (0..<times).map { _ in try buy() }
    try await withThrowingTaskGroup { group in
      for (number, purchase) in purchases.enumerated() {
        group.addTask {
          let user = UUID()
          let answer =
            switch number % 4 {
            case 0: try await self.notify(purchase.notification.signedPayload)
            case 1: try await self.validate(["signedTransaction": purchase.signedTransaction])
            case 2: try await self.profile(of: user, token: self.token(for: user))
            default:
              try await self.sync([purchase.signedTransaction], user: user, token: self.token(for: user))
            }
          #expect(answer.status == 200, "request \(number): \(answer.code ?? "")")
        }
      }
      try await group.waitForAll()
    }
  }
}
