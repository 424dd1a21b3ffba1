import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// The doctor's checks of tables that may be the app's own.
@Suite struct DoctorTableTests {
  private func check(_ harness: Harness) async -> [CheckResult] {
    var results: [CheckResult] = []
    _ = await Doctor(environment: harness.environment).check { results.append($0) }
    return results.filter { $0.subject.hasPrefix("table ") }
  }

  /// A change of a table by hand, and the one failed line that follows: a part of it, and of what to do.
  private struct Case: Sendable, CustomTestStringConvertible {
    var change: String
    var line: String
    var remedy: String
    var testDescription: String { line }
  }

  private static let cases = [
    Case(
      change: """
        DROP VIEW support_customers, support_subscriptions, support_timeline CASCADE;
        ALTER TABLE subscriptions ALTER COLUMN purchase_date TYPE timestamp
        """,
      line:
        "table subscriptions: purchase_date is timestamp without time zone and must be timestamp with time zone",
      remedy: "SET TimeZone = 'UTC'; ALTER TABLE public.subscriptions ALTER COLUMN purchase_date TYPE"),
    Case(
      change: """
        DROP VIEW support_customers, support_subscriptions, support_timeline CASCADE;
        ALTER TABLE subscriptions ALTER COLUMN tier TYPE varchar(5)
        """,
      line: "table subscriptions: tier is character varying(5) and must be text",
      remedy: "ALTER TABLE public.subscriptions ALTER COLUMN tier TYPE text USING tier::text"),
    Case(
      change: "ALTER TABLE subscriptions DROP COLUMN store_asked_at",
      line: "table subscriptions: has no store_asked_at",
      remedy: "ADD COLUMN store_asked_at timestamp with time zone"),
    Case(
      change: "ALTER TABLE subscriptions ALTER COLUMN device_id SET NOT NULL",
      line: "table subscriptions: device_id is NOT NULL, but receiptd writes NULL",
      remedy: "ALTER COLUMN device_id DROP NOT NULL"),
    Case(
      change: "ALTER TABLE subscriptions ADD COLUMN plan text NOT NULL",
      line: "table subscriptions: plan is NOT NULL without a default", remedy: "or give it a default"),
    Case(
      change: "DROP INDEX idx_original_transaction_id",
      line: "table subscriptions: has no unique key on original_transaction_id",
      remedy: "CREATE UNIQUE INDEX CONCURRENTLY subscriptions_original_transaction_id_key"),
    Case(
      change: "CREATE UNIQUE INDEX one_each ON subscriptions (device_id)",
      line: "table subscriptions: the unique key one_each allows one row for each device_id",
      remedy: "drop it"),
    Case(
      change: "ALTER TABLE profiles ALTER COLUMN premium_expires_at SET NOT NULL",
      line: "table profiles: premium_expires_at is NOT NULL", remedy: "DROP NOT NULL"),
    Case(
      change: "ALTER TABLE user_preferences DROP CONSTRAINT user_preferences_pkey",
      line: "table user_preferences: has no unique key on user_id",
      remedy: "ON public.user_preferences (user_id)"),
    Case(
      change: "ALTER TABLE profiles DISABLE TRIGGER receiptd_guard_premium_update",
      line: "table profiles: the trigger receiptd_guard_premium_update is missing or disabled",
      remedy: "ENABLE TRIGGER receiptd_guard_premium_update"),
    Case(
      change: "DROP TRIGGER receiptd_guard_premium_insert ON user_preferences",
      line: "table user_preferences: the trigger receiptd_guard_premium_insert is missing",
      remedy: "run SELECT receiptd_set_guards()"),
    Case(
      change: """
        CREATE TABLE products (id text PRIMARY KEY);
        ALTER TABLE profiles ADD CONSTRAINT premium_product
          FOREIGN KEY (premium_product_id) REFERENCES products ON UPDATE CASCADE
        """,
      line: "table profiles: the foreign key premium_product changes premium columns",
      remedy: "ALTER TABLE public.profiles DROP CONSTRAINT premium_product"),
    Case(
      change: """
        CREATE TABLE receipts (id text PRIMARY KEY);
        ALTER TABLE profiles ADD CONSTRAINT premium_receipt
          FOREIGN KEY (premium_original_transaction_id) REFERENCES receipts ON DELETE SET NULL
        """,
      line: "table profiles: the foreign key premium_receipt changes premium columns",
      remedy: "ALTER TABLE public.profiles DROP CONSTRAINT premium_receipt"),
    Case(
      change: """
        CREATE TABLE receipts (id text PRIMARY KEY);
        ALTER TABLE profiles ADD CONSTRAINT premium_receipt
          FOREIGN KEY (premium_original_transaction_id) REFERENCES receipts ON UPDATE SET NULL
        """,
      line: "table profiles: the foreign key premium_receipt changes premium columns",
      remedy: "ALTER TABLE public.profiles DROP CONSTRAINT premium_receipt"),
    Case(
      change: "ALTER TABLE profiles ALTER premium_product_id SET DEFAULT 'free'",
      line: "table profiles: premium_product_id has the default 'free'::text, with which a row says premium",
      remedy: "ALTER TABLE public.profiles ALTER COLUMN premium_product_id SET DEFAULT NULL"),
    Case(
      change: "ALTER TABLE user_preferences ALTER is_premium SET DEFAULT true",
      line: "table user_preferences: is_premium has the default true, with which a row says premium",
      remedy: "ALTER TABLE public.user_preferences ALTER COLUMN is_premium SET DEFAULT false"),
    Case(
      change: "CREATE TABLE spare () INHERITS (user_preferences)",
      line: "table user_preferences: spare inherits from it",
      remedy: "ALTER TABLE spare NO INHERIT public.user_preferences"),
  ]

  @Test(arguments: cases) private func `a table that was edited has a line with what to do`(_ example: Case)
    async throws
  {
    try await withHarness(role: nil) { harness in
      try await LiveTables.run(example.change, on: harness.pool)
      let failures = await check(harness).filter { !$0.isOK }
      #expect(failures.count == 1)
      #expect(failures.first?.line.contains(example.line) == true, "\(failures)")
      #expect(failures.first?.remedy?.contains(example.remedy) == true, "\(failures)")
    }
  }

  @Test func `a database that quotes all identifiers passes`() async throws {
    try await withHarness(role: nil) { harness in
      try await LiveTables.run(
        """
        DO $do$ BEGIN
          EXECUTE format('ALTER DATABASE %I SET quote_all_identifiers = on', current_database());
        END $do$
        """, on: harness.pool)
      let results = await check(harness)
      #expect(results.count == 3)
      #expect(results.filter { !$0.isOK }.map(\.line) == [])
    }
  }

  @Test func `the live tables pass once they are migrated, and old rows are counted`() async throws {
    try await LiveTables.withService { harness in
      let results = await check(harness)
      #expect(results.filter { !$0.isOK } == [])
      #expect(
        results.contains {
          $0.subject == "table subscriptions" && $0.message.contains("wait for the first fact about them: 4")
        })
    }
  }

  @Test func `columns that only the app can fill are named`() async throws {
    try await withHarness { harness in
      _ = try await harness.pool.query("ALTER TABLE profiles ADD COLUMN username text NOT NULL")
      let results = await check(harness)
      #expect(
        results.contains {
          $0.isOK && $0.subject == "table profiles"
            && $0.message.contains("the app must add the rows, because username has no default")
        })
    }
  }
}
