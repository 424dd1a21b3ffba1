import AppStoreSimulator
import Foundation
import Platform
import Postgres
import Subscriptions
import Testing
import Work

@testable import Customers
@testable import ReceiptService

/// The profile tables belong to the app and may refuse rows or be locked. That must neither lose purchases nor delay
/// other customers.
@Suite struct ProfileFailureTests {
  @Test func `a locked profile row delays no request and is written after its release`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      _ = try await harness.pool.query("INSERT INTO profiles (id) VALUES (\(user))")
      let bought = try harness.buy()
      try await harness.pool.withTransaction { connection in
        _ = try await connection.query("SELECT 1 FROM profiles WHERE id = \(user) FOR UPDATE")
        let answer = try await harness.validate(["signedTransaction": bought.signedTransaction], token: token)
        #expect(answer.status == 200)
        #expect(answer.bool("entitlements.isAccessGranted") == true)
        for _ in 0..<5 {
          let other = try harness.buy(token: UUID())
          let status = try await harness.notify(other.notification.signedPayload).status
          #expect(status == 200)
        }
        let held = try await harness.profileRow(of: user)
        #expect(held?.product == nil)
        // A retry while it is locked: it stays queued.
        harness.clock.advance(seconds: 2)
        try await harness.service.customers.profileRetry.run()
        let waiting = try await harness.pool.query("SELECT attempts FROM outbox")
        let attempts = try waiting.map { try $0.decode("attempts", as: Int.self) }
        #expect(attempts == [1])
      }
      harness.clock.advance(seconds: 60)
      try await harness.service.customers.profileRetry.run()
      #expect(try await harness.profileRow(of: user)?.product == TestApps.monthly)
      #expect(try await harness.count("outbox") == 0)
    }
  }

  /// A client may write such columns of its own row. As JSON the row took seconds, or an error.
  @Test(arguments: [
    ("json", #"'{"a": "\u0000"}'"#), ("jsonb", "(SELECT jsonb_agg(1) FROM generate_series(1, 1500000))"),
  ])
  func `a refund clears a row whatever the app's own columns have`(type: String, value: String) async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      #expect(try await harness.profileRow(of: user)?.product == TestApps.monthly)
      try await LiveTables.run(
        """
        ALTER TABLE profiles ADD COLUMN data \(type);
        UPDATE profiles SET data = \(value)
        """, on: harness.pool)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.profileRow(of: user)?.product == nil)
      #expect(try await harness.count("outbox WHERE destination = 'profiles'") == 0)
      // So does the end of the account.
      _ = try await harness.pool.query("DELETE FROM profiles WHERE id = \(user)")
    }
  }

  @Test func `a status that failed before is given the time that a slow trigger of the app needs`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      try await LiveTables.run(
        """
        CREATE FUNCTION slow_audit() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN PERFORM pg_sleep(0.8); RETURN new; END';
        CREATE TRIGGER slow_audit BEFORE UPDATE ON profiles FOR EACH ROW EXECUTE FUNCTION slow_audit()
        """, on: harness.pool)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.profileRow(of: user)?.product == TestApps.monthly)
      func attempts() async throws -> [Int] {
        try await harness.pool.query("SELECT attempts FROM outbox WHERE destination = 'profiles'").map {
          try $0.decode("attempts")
        }
      }
      #expect(try await attempts() == [0])
      // The first attempt waits as long as a request does.
      harness.clock.advance(seconds: 60)
      try await harness.service.customers.profileRetry.run()
      #expect(try await attempts() == [1])
      harness.clock.advance(seconds: 3_600)
      try await harness.service.customers.profileRetry.run()
      #expect(try await attempts() == [])
      #expect(try await harness.profileRow(of: user)?.product == nil)
    }
  }

  @Test func `a customer whose lock is held, or whose transaction fails, stops no other customer's status`()
    async throws
  {
    try await withHarness { harness in
      let users = (0..<3).map { _ in UUID() }
      for user in users {
        _ = try await harness.pool.query("INSERT INTO profiles (id) VALUES (\(user))")
        try await harness.arrives(harness.buy(token: user))
        _ = try await harness.pool.query(
          "UPDATE profiles SET premium_product_id = NULL, premium_expires_at = NULL WHERE id = \(user)")
        _ = try await harness.pool.query(
          """
          INSERT INTO outbox (destination, key, payload, created_at, next_attempt_at)
          VALUES ('profiles', \(user.uuidString.lowercased()), '{"tables": ["profiles"]}', \(harness.clock.now),
            \(harness.clock.now))
          """)
        harness.clock.advance(seconds: 1)
      }
      // The second one's row cannot be deleted: the transaction fails.
      _ = try await harness.pool.query(
        """
        CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$
        """)
      _ = try await harness.pool.query(
        """
        CREATE TRIGGER fails BEFORE DELETE ON outbox FOR EACH ROW
        WHEN (OLD.key = '\(unescaped: users[1].uuidString.lowercased())') EXECUTE FUNCTION fails()
        """)
      try await harness.pool.withTransaction { connection in
        _ = try await connection.query(CustomerStatusWriter.lock([.user(users[0])]))
        try await harness.service.customers.profileRetry.run()
        #expect(try await harness.profileRow(of: users[2])?.product == TestApps.monthly)
        #expect(try await harness.profileRow(of: users[0])?.product == nil)
      }
      harness.clock.advance(seconds: 60)
      try await harness.service.customers.profileRetry.run()
      #expect(try await harness.profileRow(of: users[0])?.product == TestApps.monthly)
    }
  }

  @Test(arguments: [
    """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON profiles FOR EACH ROW EXECUTE FUNCTION refuse()
    """,
    """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
    CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON profiles
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()
    """,
    """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '08001'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON profiles FOR EACH ROW EXECUTE FUNCTION refuse()
    """,
    """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '40001'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON profiles FOR EACH ROW EXECUTE FUNCTION refuse()
    """,
    """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(30); END $$;
    CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON profiles FOR EACH ROW EXECUTE FUNCTION refuse()
    """,
    "ALTER TABLE profiles ADD CONSTRAINT refuse CHECK (premium_product_id IS NULL)",
    "ALTER TABLE profiles ADD COLUMN needed text NOT NULL",
    "ALTER TABLE profiles RENAME COLUMN premium_expires_at TO elsewhere",
    // Selecting the rows already fails.
    "ALTER TABLE profiles RENAME COLUMN id TO elsewhere",
  ])
  func `a profile table that refuses rows loses no purchase and gets the status when it accepts rows`(
    trouble: String
  )
    async throws
  {
    try await withHarness { harness in
      for statement in trouble.split(separator: ";\n") {
        _ = try await harness.pool.query(Query(unescaped: String(statement)))
      }
      let (user, other) = (UUID(), UUID())
      let bought = try harness.buy(token: user)
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      let answer = try await harness.validate(
        ["signedTransaction": harness.buy().signedTransaction], token: harness.token(for: other))
      #expect(answer.status == 200)
      #expect(try await harness.count("transactions") == 2)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == user)
      #expect(try await harness.count("outbox") == 2)

      for cure in [
        "DROP TRIGGER IF EXISTS refuse ON profiles", "ALTER TABLE profiles DROP CONSTRAINT IF EXISTS refuse",
        "ALTER TABLE profiles DROP COLUMN IF EXISTS needed",
        """
        DO $$ BEGIN ALTER TABLE profiles RENAME COLUMN elsewhere TO id;
        EXCEPTION WHEN undefined_column OR duplicate_column THEN NULL; END $$
        """,
        "ALTER TABLE profiles ADD COLUMN IF NOT EXISTS premium_expires_at timestamptz",
      ] { _ = try await harness.pool.query(Query(unescaped: cure)) }
      harness.clock.advance(seconds: 5)
      try await harness.service.customers.profileRetry.run()
      #expect(try await harness.profileRow(of: user)?.product == TestApps.monthly)
      #expect(try await harness.profileRow(of: other)?.product == TestApps.monthly)
    }
  }

  @Test func `if one of several profile rows is refused, the others are written and committed`() async throws
  {
    try await withHarness { harness in
      let users = (0..<4).map { _ in UUID() }
      _ = try await harness.pool.query(
        "INSERT INTO profiles (id, premium_product_id) SELECT id, 'before' FROM unnest(\(users)::uuid[]) AS id"
      )
      _ = try await harness.pool.query(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$
        """)
      _ = try await harness.pool.query(
        """
        CREATE TRIGGER refuse BEFORE UPDATE ON profiles FOR EACH ROW
        WHEN (OLD.id = '\(unescaped: users[2].uuidString)') EXECUTE FUNCTION refuse()
        """)
      let writer = ProfileWriter(
        catalog: harness.service.customers.profileRetry.catalog, clock: harness.clock.service,
        logger: harness.service.logger)
      let changes = users.map { CustomerChange(bundleID: TestApps.climbing, customer: .user($0)) }
      let unwritten = try await harness.pool.withTransaction { connection in
        try await writer.write(changes, customerRecords: RecordsByCustomer(), on: connection, commits: true)
      }
      #expect(unwritten == [users[2]: "profiles: refused (P0001)"])
      for user in users {
        let product = try await harness.profileRow(of: user)?.product
        #expect(product == (user == users[2] ? "before" : nil))
      }
      #expect(try await harness.count("outbox") == 1)
    }
  }

  @Test func `concurrent runs of the profile retry write every waiting status`() async throws {
    try await withHarness { harness in
      _ = try await harness.pool.query("ALTER TABLE profiles ADD COLUMN needed text NOT NULL")
      for _ in 0..<50 {
        let bought = try harness.buy(token: UUID())
        #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      }
      _ = try await harness.pool.query("ALTER TABLE profiles DROP COLUMN needed")
      harness.clock.advance(seconds: 5)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<4 { group.addTask { try await harness.service.customers.profileRetry.run() } }
        try await group.waitForAll()
      }
      try await harness.service.customers.profileRetry.run()
      #expect(try await harness.count("profiles") == 50)
      #expect(try await harness.count("outbox") == 0)
    }
  }

  @Test func `the delivery backoff grows with jitter up to an hour`() {
    #expect(Backoff.delivery.seconds(afterFailures: 1, random: 1) == 2)
    #expect(Backoff.delivery.seconds(afterFailures: 1, random: 0) == 1)
    #expect(Backoff.delivery.seconds(afterFailures: 6, random: 1) == 64)
    #expect(Backoff.delivery.seconds(afterFailures: 1_000_001, random: 1) == 3_600)
  }
}
