import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// The service behind a real PgBouncer, mostly in transaction mode: each transaction may use another server process
/// than the one before.
@Suite(.timeLimit(.minutes(10))) struct PgBouncerTests {
  private static func withPooler(
    in mode: PrivatePgBouncer.Mode = .transaction, _ body: (Harness) async throws -> Void
  ) async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        // As on the role of the server: a pooler passes no settings on.
        _ = try await pool.query(
          """
          DO $$ BEGIN
            EXECUTE format('ALTER DATABASE %I SET search_path = receiptd, public', current_database());
          END $$
          """)
      }
      let pooler = try await PrivatePgBouncer.start(before: database, in: mode)
      let harness = try await Harness(
        databaseURL: database.uri(port: pooler.port), configuration: TestApps.json,
        environment: ["DATABASE_POOLER": mode.rawValue])
      do {
        // Migrations also run through the pooler.
        #expect(try await !harness.service.migrator.apply().isEmpty)
        try await body(harness)
      } catch {
        await harness.stop()
        try await pooler.remove()
        throw error
      }
      await harness.stop()
      try await pooler.remove()
    }
  }

  @Test(arguments: PrivatePgBouncer.Mode.allCases)
  func `purchase, validation, renewal and refund work through a pooler`(in mode: PrivatePgBouncer.Mode)
    async throws
  {
    try await Self.withPooler(in: mode) { harness in
      let (user, bought) = try await harness.customer()
      #expect(try await harness.premium(user).bool("isPremium") == true)
      let validated = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: harness.token(for: user))
      #expect(validated.string("subscription.status") == "active")
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      #expect(try await harness.premium(user).date("premiumExpiresAt") == renewed.transaction.expiresDate)
      let synced = try await harness.sync(
        [renewed.signedTransaction], user: user, token: harness.token(for: user))
      #expect(synced.bool("isPremium") == true)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.premium(user).bool("isPremium") == false)
      _ = try await harness.service.sweep.run()
      #expect(try await harness.send(.get, "/readyz", to: harness.adminAddress).status == 200)
    }
  }

  @Test func `many concurrent transactions share a pooler's connections and leave no state on them`()
    async throws
  {
    try await Self.withPooler { harness in
      let bought = try (0..<60).map { _ in try harness.buy(token: UUID()) }
      try await withThrowingTaskGroup(of: Int.self) { group in
        for (number, purchase) in bought.enumerated() {
          group.addTask {
            number.isMultiple(of: 2)
              ? try await harness.notify(purchase.notification.signedPayload).status
              : try await harness.validate(["signedTransaction": purchase.signedTransaction]).status
          }
        }
        for try await status in group { #expect(status == 200) }
      }
      let kept = try await harness.pool.query("SELECT count(*) FROM subscriptions").first
      #expect(try kept?.decode("count", as: Int64.self) == 60)

      // Two open transactions use two connections of the pooler.
      let processes = try await harness.pool.withTransaction { one in
        let first = try await Self.processWithoutLeftovers(one)
        let second = try await harness.pool.withTransaction { other in
          try await Self.processWithoutLeftovers(other)
        }
        return Set([first, second])
      }
      #expect(processes.count == 2)
    }
  }

  /// The server process of the transaction. Checks that other transactions left no state in it.
  private nonisolated(nonsending) static func processWithoutLeftovers(
    _ connection: PostgresConnection
  ) async throws -> Int32 {
    let row = try #require(
      try await connection.query(
        """
        SELECT pg_backend_pid() AS process,
          (SELECT count(*) FROM pg_prepared_statements WHERE name <> '') AS statements,
          (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
          (SELECT count(*) FROM pg_settings WHERE source = 'session'
            -- The level is that of the present transaction, which named it.
            AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'transaction_isolation'))
            AS settings
        """
      ).first)
    for column in ["statements", "locks", "settings"] { #expect(try row.decode(column, as: Int64.self) == 0) }
    return try row.decode("process")
  }
}
