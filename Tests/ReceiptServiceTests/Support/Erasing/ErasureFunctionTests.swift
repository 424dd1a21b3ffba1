import AppStoreSimulator
import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Deliveries
@testable import ReceiptService
@testable import Support

/// The function `receiptd_erase_actions`, which runs with the owner's rights.
@Suite struct ErasureFunctionTests {
  /// The arguments of a call that is allowed; a case replaces some.
  private struct Arguments {
    var customer: String? = "phone"
    var kind: String? = "device"
    var apps: [String?]? = [TestApps.family]
    var purchases: [String?]? = []
    var pseudonym: String? = "erased-\(UUID().uuidString.lowercased())"
    var counts = "{}"

    var call: Query {
      """
      SELECT receiptd_erase_actions(\(customer)::text, \(kind)::text, \(apps)::text[], \(purchases)::text[],
        \(pseudonym)::text, 'ada', 'operator', NULL, 'letter', \(counts)::text::jsonb, now()) AS erased
      """
    }
  }

  @Test func `the function refuses arguments that name no customer, and changes nothing`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      let (user, bought) = try await harness.customer()
      let (other, _) = try await harness.customer()
      let phone = "erased-\(UUID().uuidString.lowercased())"
      _ = try await harness.deviceBuys("phone-1")
      // No request may name a device so.
      _ = try await harness.pool.query(
        "UPDATE subscriptions SET device_id = \(phone) WHERE device_id = 'phone-1'")
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.preferRefund(.grant, for: bought.transactionID, by: ada)
      _ = try await harness.desk.preferRefund(.grant, for: user.uuidString, by: ada)
      let before = try await harness.actions()
      let pseudonym = UUID().uuidString.lowercased()
      let id = user.uuidString.lowercased()
      for arguments in [
        Arguments(customer: ""), Arguments(customer: nil), Arguments(kind: nil), Arguments(kind: ""),
        Arguments(kind: "all"), Arguments(customer: "phone", kind: "user", pseudonym: pseudonym),
        Arguments(customer: user.uuidString, kind: "user", pseudonym: pseudonym),
        Arguments(customer: id, kind: "user", pseudonym: "erased-\(pseudonym)"),
        Arguments(customer: id, kind: "user", pseudonym: id), Arguments(pseudonym: nil),
        Arguments(pseudonym: ""), Arguments(pseudonym: "phone"), Arguments(apps: nil),
        // They are other customers, of whom there is no record yet.
        Arguments(customer: id, kind: "user", pseudonym: other.uuidString.lowercased()),
        Arguments(pseudonym: phone),
        Arguments(apps: [nil]), Arguments(apps: [TestApps.family, nil]), Arguments(purchases: nil),
        Arguments(purchases: [nil]), Arguments(purchases: ["1", nil]),
        // No erasure released this purchase.
        Arguments(purchases: [bought.originalTransactionID]), Arguments(counts: "[]"),
      ] {
        let error = await #expect(throws: PostgresError.self, "\(arguments)") {
          _ = try await harness.service.pool.query(arguments.call)
        }
        #expect(error?.sqlState == "22023", "\(arguments): \(String(describing: error))")
      }
      #expect(try await harness.actions() == before)
      _ = try await harness.service.pool.query(Arguments().call)
      #expect(try await Array(harness.actions().prefix(before.count)) == before)
    }
  }

  @Test func `a server cannot name a row of the app for deletion, and the row that it adds is noted`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      let (customer, _) = try await harness.customer()
      let own = UUID()
      _ = try await harness.pool.query("INSERT INTO profiles (id) VALUES (\(own))")
      let server = harness.service.pool
      for statement: Query in [
        "INSERT INTO added_profile_rows (table_name, user_id) VALUES ('profiles', \(own))",
        "UPDATE profiles SET premium_product_id = 'x' WHERE id = \(own)",
        "INSERT INTO profiles (id) VALUES (\(own)) ON CONFLICT (id) DO NOTHING",
      ] { _ = try await server.query(statement) }
      #expect(try await harness.count("added_profile_rows WHERE user_id = '\(own)'") == 0)
      let arguments = Arguments(
        customer: own.uuidString.lowercased(), kind: "user", apps: [TestApps.climbing],
        pseudonym: UUID().uuidString.lowercased())
      _ = try await server.query(arguments.call)
      #expect(try await harness.profileRow(of: own) != nil)

      let noted = "added_profile_rows WHERE table_name = 'profiles' AND user_id = '\(customer)'"
      #expect(try await harness.count(noted) == 1)
      try await harness.erase(customer.uuidString)
      #expect(try await harness.profileRow(of: customer) == nil)
    }
  }

  @Test func `no other role may call the functions of erasing`() async throws {
    try await Supabase.with(.own) { supabase in
      let open = try await supabase.pool.query(
        """
        SELECT p.proname::text || ' to ' || r.rolname AS right FROM pg_proc p, pg_roles r
        WHERE p.proname ~ '^receiptd_(erase_actions|rename_in)'
          AND r.rolname IN ('anon', 'authenticated', 'service_role', 'receiptd_support', 'receiptd_numbers')
          AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
        """
      ).map { try $0.decode("right", as: String.self) }
      #expect(open == [])
    }
  }

  @Test func `an erasure reads few of the rows that clients cause`() async throws {
    try await withHarness(role: nil) { harness in
      _ = try await harness.pool.query(
        """
        INSERT INTO support_actions (action, bundle_id, original_transaction_id, from_customer, to_customer, customer_kind,
          by, actor, reason)
        SELECT 'transfer', \(TestApps.family), (n % 7)::text, 'phone-' || n, 'phone-' || n + 1, 'device', 'policy',
          'receiptd', 'another device joined the purchase'
        FROM generate_series(1, 20000) AS n
        """)
      for isAnalyzed in [false, true] {
        if isAnalyzed { _ = try await harness.pool.query("ANALYZE support_actions") }
        try await harness.pool.withTransaction { connection in
          // They count since the session last reported them.
          let counts: Query = """
            SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'support_actions'
            """
          let answers = try await connection.pipeline([
            counts, Arguments(customer: isAnalyzed ? "phone-77" : "phone-7777").call, counts,
          ])
          #expect(try answers[1][0].decode("erased", as: Int.self) == 2)
          func added(_ column: String) throws -> Int {
            try answers[2][0].decode(column, as: Int.self) - answers[0][0].decode(column, as: Int.self)
          }
          #expect(try added("seq_scan") == 0)
          #expect(try added("idx_tup_fetch") < 20)
        }
      }
    }
  }

  @Test func `a statement of an erasure may take longer than others`() async throws {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let harness = try await Harness(
        databaseURL: database.uri, configuration: TestApps.json, ownerURL: database.uri,
        databaseTimeout: .seconds(1))
      do {
        try await harness.device(named: "phone")
        _ = try await harness.desk.preferRefund(.grant, for: "phone", by: #require(Harness.ada))
        // The erasure waits for one table and then for the other. Each time, a statement that waits for less long times
        // out.
        let erasing = try await harness.pool.withTransaction { actions in
          _ = try await actions.query("LOCK TABLE support_actions IN SHARE MODE")
          let erasing = try await harness.pool.withTransaction { trials in
            _ = try await trials.query("LOCK TABLE trials IN SHARE MODE")
            let erasing = Task { try await harness.erase("phone") }
            try await harness.expectTimeout(whileErasingWaitsFor: "trials")
            return erasing
          }
          try await harness.expectTimeout(whileErasingWaitsFor: "support_actions")
          return erasing
        }
        #expect(try await erasing.value.erased.first?.rows["support_actions"] == 1)
      } catch {
        await harness.stop()
        throw error
      }
      await harness.stop()
    }
  }
}

extension Harness {
  /// Waits until a statement of an erasure waits for a table, and runs another one that waits until its timeout.
  fileprivate func expectTimeout(whileErasingWaitsFor table: String) async throws {
    try await untilWaiting(1, for: table)
    let error = await #expect(throws: PostgresError.self) {
      _ = try await service.pool.query("DELETE FROM \(unescaped: table) WHERE false")
    }
    #expect(error?.kind == .timedOut)
  }
}
