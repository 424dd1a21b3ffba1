import AppStoreSimulator
import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// A primary that waits for a synchronous standby that does not respond.
@Suite(.timeLimit(.minutes(10))) struct SynchronousStandbyTests {
  @Test func `a notification that is on the primary alone does not get 200`()
    async throws
  {
    let postgres = try await PrivatePostgres.start()
    let harness = try await Harness(databaseURL: postgres.uri, configuration: TestApps.json)
    do {
      try await harness.service.migrator.apply()
      let kept = try harness.buy().notification.signedPayload
      #expect(try await harness.notify(kept).status == 200)
      let repeated = try harness.buy().notification.signedPayload
      try await Self.requireStandby(true, postgres)
      for _ in 1...2 {
        #expect(try await harness.notify(repeated).code == "database_unavailable")
        // The row becomes visible when PostgreSQL stops waiting, and would be lost by a failover.
        while try await harness.count("notifications") < 2 {
          try await Task.sleep(for: .milliseconds(5))
        }
      }
      // A notification that this server has cached as stored may also be on the primary alone.
      #expect(try await harness.notify(kept).code == "database_unavailable")
      try await Self.requireStandby(false, postgres)
      #expect(try await harness.notify(repeated).status == 200)
      #expect(try await harness.count("notifications") == 2)
    } catch {
      await harness.stop()
      try? await postgres.remove()
      throw error
    }
    await harness.stop()
    try await postgres.remove()
  }

  /// Makes the server wait for a missing standby, or for none; returns when the setting is in force.
  private static func requireStandby(_ isRequired: Bool, _ postgres: PrivatePostgres) async throws {
    let pool = try TestDatabase(uri: postgres.uri).pool { $0.queryTimeout = .milliseconds(300) }
    do {
      _ = try await pool.query(
        "ALTER SYSTEM SET synchronous_standby_names = '\(unescaped: isRequired ? "nobody" : "")'")
      _ = try await pool.query("SELECT pg_reload_conf()")
      // A commit shows that the setting is in force: its process and the process that releases waiters have read it.
      func waits() async throws -> Bool {
        do {
          _ = try await pool.query("SELECT pg_logical_emit_message(true, 'test', '')")
          return false
        } catch let error as PostgresError where error.isUnavailable {
          return true
        }
      }
      while try await waits() != isRequired { try await Task.sleep(for: .milliseconds(5)) }
    } catch {
      await pool.close()
      throw error
    }
    await pool.close()
  }
}
