import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// Everything that belongs to a table belongs to the divided one, where clients of the database are kept out by it too.
@Suite struct CarriedOverTests {
  /// Each fact of the catalog about a table, as a line.
  private static func facts(_ table: MonthlyTable, _ pool: PostgresPool) async throws -> [String] {
    let name = table.rawValue
    return try await pool.query(
      """
      WITH t AS (SELECT c.* FROM pg_class c WHERE c.oid = \(name)::text::regclass)
      SELECT fact FROM (
        SELECT 'owner ' || relowner::regrole AS fact FROM t
        UNION ALL SELECT 'row security ' || relrowsecurity || ' ' || relforcerowsecurity FROM t
        UNION ALL SELECT 'right ' || acl::text FROM t, unnest(relacl) AS acl
        UNION ALL SELECT 'right to ' || attname || ' ' || acl::text
          FROM t JOIN pg_attribute a ON a.attrelid = t.oid, unnest(attacl) AS acl
        UNION ALL SELECT 'comment ' || obj_description(t.oid, 'pg_class') FROM t
        UNION ALL SELECT 'column ' || attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull || ' '
            || coalesce(pg_get_expr(adbin, adrelid), '') || ' ' || coalesce(col_description(t.oid, attnum), '')
          FROM t JOIN pg_attribute a ON a.attrelid = t.oid AND attnum > 0 AND NOT attisdropped
          LEFT JOIN pg_attrdef ON adrelid = t.oid AND adnum = attnum
        UNION ALL SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(k.oid)
          FROM t JOIN pg_constraint k ON conrelid = t.oid AND contype IN ('c', 'f')
        UNION ALL SELECT 'index ' || replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ')
          FROM t JOIN pg_index ON indrelid = t.oid WHERE NOT indisunique
        UNION ALL SELECT 'trigger ' || pg_get_triggerdef(g.oid)
          FROM t JOIN pg_trigger g ON tgrelid = t.oid AND NOT tgisinternal
        UNION ALL SELECT 'policy ' || to_jsonb(p)::text FROM pg_policies p WHERE tablename = \(name)
      ) AS facts ORDER BY 1
      """
    ).map { try $0.decode(0, as: String.self) }
  }

  private static let views: Query = """
    SELECT c.oid::text || ' ' || relname || ' ' || relowner::regrole || ' ' || coalesce(relacl::text, '') || ' '
      || coalesce(reloptions::text, '') || ' ' || coalesce(obj_description(c.oid, 'pg_class'), '') || ' '
      || pg_get_viewdef(c.oid) || ' ' || coalesce((
        SELECT string_agg(col_description(c.oid, attnum), ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid), '')
    FROM pg_class c WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace ORDER BY relname
    """

  /// What an operator may have added.
  private static let additions = [
    "ALTER TABLE notifications ADD CONSTRAINT sane CHECK (length(type) < 1000)",
    "CREATE INDEX own_idx ON notifications (lower(type)) WHERE subtype IS NOT NULL",
    "CREATE INDEX transactions_own_idx ON transactions (bundle_id, currency)",
    "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "REVOKE ALL ON FUNCTION note() FROM PUBLIC, anon, authenticated",
    "CREATE TRIGGER noted AFTER INSERT ON notifications FOR EACH ROW EXECUTE FUNCTION note()",
    "CREATE TRIGGER told BEFORE UPDATE OF currency ON transactions FOR EACH STATEMENT EXECUTE FUNCTION note()",
    "GRANT SELECT (type, outcome) ON notifications TO receiptd_support WITH GRANT OPTION",
    "GRANT UPDATE ON transactions TO service_role WITH GRANT OPTION",
    """
    CREATE POLICY "own rows" ON transactions AS RESTRICTIVE FOR UPDATE TO service_role
      USING (true) WITH CHECK (signed_at IS NOT NULL)
    """,
    """
    CREATE VIEW own_view WITH (security_barrier) AS SELECT n.type, count(*) AS times
    FROM notifications n JOIN transactions t USING (original_transaction_id) GROUP BY 1
    """,
    "COMMENT ON VIEW own_view IS 'An operator''s own.'",
    "CREATE VIEW own_view_of_view AS SELECT * FROM own_view",
    "ALTER VIEW own_view SET (security_invoker = true)",
    "ALTER VIEW own_view_of_view SET (security_invoker = true)",
    "REVOKE ALL ON own_view, own_view_of_view FROM anon, authenticated",
    "GRANT SELECT ON own_view TO receiptd_support",
  ]

  @Test func `rights, policies, triggers, comments, constraints, indexes and views come along`() async throws
  {
    try await Supabase.with(.own) { supabase in
      let pool = supabase.pool
      for statement in Self.additions {
        _ = try await pool.query(Query(unescaped: statement))
      }
      var before: [[String]] = []
      for table in MonthlyTable.allCases { before.append(try await Self.facts(table, pool)) }
      let views = try await pool.query(Self.views).map { try $0.decode(0, as: String.self) }
      #expect(before[0].contains { $0.hasPrefix("right to type") })
      try await pool.divide()
      for (table, facts) in zip(MonthlyTable.allCases, before) {
        #expect(try await Self.facts(table, pool) == facts)
        let parts = try await pool.months(of: table)
        #expect(parts.count >= 4)
        // Each part has an index of its own for each of the whole's, and its key.
        for part in parts {
          let counts = try await pool.query(
            """
            SELECT (SELECT count(*) FROM pg_index WHERE indrelid = \(table.rawValue)::text::regclass),
              (SELECT count(*) FROM pg_index WHERE indrelid = \(part)::text::regclass AND NOT indisunique),
              (SELECT count(*) FROM pg_index WHERE indrelid = \(part)::text::regclass AND indisprimary)
            """)[0]
          #expect(try counts.decode(0, as: Int.self) == counts.decode(1, as: Int.self))
          #expect(try counts.decode(2, as: Int.self) == 1)
        }
      }
      #expect(try await pool.query(Self.views).map { try $0.decode(0, as: String.self) } == views)
    }
  }

  @Test func `nothing that stands in somebody else's view is run by whoever divides`() async throws {
    try await Supabase.with(.own) { supabase in
      let pool = supabase.pool
      for statement in [
        "CREATE SCHEMA theirs AUTHORIZATION service_role",
        "CREATE SEQUENCE theirs.runs",
        """
        CREATE FUNCTION theirs.run(text) RETURNS boolean LANGUAGE plpgsql
        AS 'BEGIN RETURN nextval(''theirs.runs'') > 0; END'
        """,
        "CREATE DOMAIN theirs.trap AS text",
        "CREATE VIEW theirs.bait AS SELECT outcome, '{x}'::theirs.trap[] AS trap FROM notifications",
        "ALTER VIEW theirs.bait OWNER TO service_role",
        "ALTER DOMAIN theirs.trap ADD CHECK (theirs.run(value)) NOT VALID",
      ] { _ = try await pool.query(Query(unescaped: statement)) }
      let partitioning = Partitioning(pool: pool, pause: .milliseconds(20))
      let error = await #expect(throws: (any Error).self) { try await partitioning.divide(.notifications) }
      #expect("\(try #require(error))".contains("view theirs.bait would not come along"))
      // A sequence goes on whatever becomes of the transaction.
      let runs = try await pool.query("SELECT is_called FROM theirs.runs")[0]
      #expect(try !runs.decode(0, as: Bool.self))
      #expect(try await pool.months(of: .notifications).isEmpty)
      _ = try await pool.query("DROP VIEW theirs.bait")
      #expect(try await partitioning.divide(.notifications))
    }
  }

  @Test func `no client of the database reads a month, also one that was made later, whatever is granted`()
    async throws
  {
    try await Supabase.with(.own) { supabase in
      let pool = supabase.pool
      try await pool.divide()
      _ = try await pool.query(
        "SELECT receiptd_make_months_through('notifications', now() + interval '5 months')")
      _ = try await pool.query(
        "SELECT receiptd_make_months_through('transactions', now() + interval '5 months')")
      let parts =
        try await pool.months(of: .notifications) + pool.months(of: .transactions)
        + MonthlyTable.allCases.map(\.rawValue) + ["retention_positions"]
      #expect(parts.count >= 13)
      let openTables = try await pool.query(
        """
        SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND (
          relkind = 'v' AND NOT coalesce('security_invoker=true' = ANY(reloptions), false)
          OR relkind IN ('r', 'p') AND NOT relrowsecurity)
        """)
      #expect(openTables.isEmpty)
      let undescribed = try await pool.query(
        """
        SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.oid = ANY(\(parts)::text[]::regclass[]) AND a.attnum > 0
          AND (col_description(c.oid, a.attnum) IS NULL OR obj_description(c.oid, 'pg_class') IS NULL)
        """)
      #expect(undescribed.isEmpty)
      let callers = [Supabase.Caller.anon, .authenticated(supabase.users[0])]
      for caller in callers {
        for part in parts {
          for statement in ["SELECT * FROM \(part)", "DELETE FROM \(part)", "TRUNCATE \(part)"] {
            #expect(try await supabase.isRefused(statement, as: caller), "\(caller): \(statement)")
          }
        }
        for call in [
          "receiptd_make_months()", "receiptd_look_at_months()", "receiptd_forget_notifications(7)",
          "receiptd_forget_transactions(7)", "receiptd_divide_into_months('notifications')",
        ] { #expect(try await supabase.isRefused("SELECT \(call)", as: caller), "\(caller): \(call)") }
      }
      _ = try await pool.query("INSERT INTO jws_headers (header, sha256) VALUES ('h', 'h')")
      _ = try await pool.query(
        """
        INSERT INTO notifications (notification_uuid, type, signed_at, received_at, outcome, envelope_header,
          envelope_claims, envelope_signature)
        SELECT gen_random_uuid(), 'TEST', at, at, 'recorded', (SELECT max(id) FROM jws_headers), '{}', ''
        FROM generate_series(now(), now() + interval '9 months', interval '1 month') AS at
        """)
      _ = try await pool.query("GRANT ALL ON ALL TABLES IN SCHEMA public TO anon, authenticated")
      for caller in callers {
        for part in parts {
          let rows = try await supabase.run("SELECT * FROM \(part)", as: caller)
          #expect(rows?.isEmpty ?? true, "\(caller): \(part)")
        }
      }
      #expect(try await pool.query("SELECT FROM notifications_of_no_month").count > 0)
    }
  }

  @Test func `the role that serves has months made and old rows forgotten, and nothing else`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      try await harness.pool.divide()
      let parts = try await harness.pool.months(of: .notifications) + harness.pool.months(of: .transactions)
      let statements =
        parts.flatMap {
          [
            "SELECT FROM \($0)", "DELETE FROM \($0)", "DROP TABLE \($0)",
            "ALTER TABLE \($0) ADD COLUMN x int",
          ]
        }
        + MonthlyTable.allCases.flatMap {
          [
            "DELETE FROM \($0.rawValue)", "CREATE TABLE mine PARTITION OF \($0.rawValue) DEFAULT",
            "SELECT receiptd_prepare_months('\($0.rawValue)')",
            "SELECT receiptd_divide_into_months('\($0.rawValue)')",
            "SELECT receiptd_make_months_through('\($0.rawValue)', now())",
            "SELECT receiptd_drop_month('\($0.rawValue)', '\($0.rawValue)_of_no_month', 'false')",
          ]
        } + [
          "SELECT receiptd_close('subscriptions')", "UPDATE retention_positions SET forgotten_before = now()",
        ]
      for statement in statements {
        do {
          _ = try await harness.service.pool.query(Query(unescaped: statement))
          Issue.record("\(statement) was allowed")
        } catch let error as PostgresError {
          #expect(error.sqlState == "42501", "\(statement): \(error)")
        }
      }
      // The floor is the functions' own: a server that was taken over cannot lower it.
      for months in [-1, 0, 6, 1_000_000] {
        for table in MonthlyTable.allCases {
          await #expect(throws: PostgresError.self) {
            try await harness.service.pool.query(MonthRows.forget(table, months: months))
          }
        }
      }
      #expect(try await harness.service.monthsJob.makeMonths() == 0)
    }
  }
}
