import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// What a person with the role `receiptd_support` sees of real purchases.
@Suite struct SupportRoleTests {
  @Test func `on Supabase support sees each view's rows, and no part that makes a signed transaction`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      let harness = try await Harness(
        databaseURL: supabase.database.uri(role: "receiptd_app"), configuration: TestApps.json,
        ownerURL: supabase.database.uri)
      do {
        let bought = try harness.buy(token: supabase.users[0])
        try await harness.arrives(bought)
        _ = try await harness.pool.query("UPDATE notifications SET processed_at = NULL, outcome = 'failed'")
      } catch {
        await harness.stop()
        throw error
      }
      await harness.stop()
      try await supabase.pool.withTransaction { connection in
        _ = try await connection.query("SET LOCAL ROLE receiptd_support")
        for view in [
          "support_customers", "support_subscriptions", "support_timeline", "support_transactions",
          "support_waiting_notifications",
        ] {
          #expect(try await !connection.query("SELECT * FROM \(unescaped: view)").isEmpty, "\(view)")
        }
        let claims = try await connection.query("SELECT transaction_claims FROM notifications")[0]
        #expect(try claims.decode("transaction_claims", as: String.self).contains("originalTransactionId"))
        for statement in [
          "SELECT * FROM notifications", "SELECT envelope_claims FROM notifications",
          "SELECT envelope_signature FROM notifications", "SELECT transaction_signature FROM notifications",
          "SELECT renewal_signature FROM notifications", "SELECT n FROM notifications n",
          "SELECT to_jsonb(n) FROM notifications n", "TABLE notifications", "COPY notifications TO STDOUT",
          "SELECT header FROM jws_headers", "SELECT * FROM jws_headers", "SELECT properties FROM events",
          "SELECT username FROM profiles", "SELECT * FROM device_secrets",
          "SELECT receiptd_readable_claims('')",
          "UPDATE notifications SET type = transaction_signature::text",
          "SELECT type FROM notifications ORDER BY transaction_signature",
          "SELECT 1 FROM notifications WHERE transaction_signature > '\\x00'",
        ] {
          let error = await #expect(throws: PostgresError.self, "\(statement)") {
            try await connection.savepoint { _ = try await $0.query(Query(unescaped: statement)) }
          }
          #expect(error?.sqlState == "42501", "\(statement)")
        }
      }
    }
  }
}
