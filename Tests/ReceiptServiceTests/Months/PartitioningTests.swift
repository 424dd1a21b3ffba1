import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Synchronization
import TestDatabase
import Testing

@testable import ReceiptService

/// What dividing does to a table that is in use.
@Suite struct PartitioningTests {
  @Test func `a storm of notifications while tables are divided loses none and doubles none`() async throws {
    try await withHarness { harness in
      // What is bought ahead of the tests' day would lie beyond the first month.
      harness.clock.advance(days: -150)
      let other = try await harness.service(configuration: TestApps.json)
      var payloads: [String] = []
      var latest: [String: String] = [:]
      var transactions: Set<String> = []
      let start = harness.clock.now
      for _ in 0..<40 {
        harness.clock.set(start)
        let bought = try harness.buy(token: UUID())
        var outcomes = [bought]
        for command in [.renew, .renew, .setAutoRenew(false), .refundLatest] as [SubscriptionCommand] {
          harness.clock.set(try #require(outcomes.last?.transaction.expiresDate))
          if command != .renew { harness.clock.advance(days: -3) }
          outcomes.append(try harness.store.perform(command, on: bought.originalTransactionID))
        }
        payloads += outcomes.map(\.notification.signedPayload)
        transactions.formUnion(outcomes.map(\.transactionID))
        latest[bought.originalTransactionID] = outcomes.last?.transactionID
      }
      payloads.shuffle()
      let thirds = stride(from: 0, to: payloads.count, by: payloads.count / 3 + 1).map {
        Array(payloads[$0..<min($0 + payloads.count / 3 + 1, payloads.count)])
      }

      @Sendable func post(_ payloads: [String]) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for payload in payloads {
            group.addTask { try await harness.arrivesAtLast(payload) }
            // Another server is told the same.
            group.addTask {
              let entry = try other.notifications.entry(for: payload)
              _ = try? await other.notifications.ledger.record(entry)
            }
          }
          try await group.waitForAll()
        }
      }
      try await post(thirds[0])
      async let storm: Void = post(thirds[1] + thirds[0])
      try await harness.pool.divide()
      try await storm
      try await post(thirds[2] + thirds[1])

      let kept = try await harness.pool.query(
        "SELECT count(*), count(DISTINCT notification_uuid), count(processed_at) FROM notifications")[0]
      for column in 0..<3 { #expect(try kept.decode(column, as: Int.self) == payloads.count) }
      #expect(try await harness.count("transactions") == transactions.count)
      for (id, transaction) in latest {
        let row = try await harness.row(of: id)
        #expect(row.transactionID == transaction)
        #expect(row.status == "cancelled")
      }
      await other.close()
    }
  }

  @Test func `the support views answer the same before and after, and replay and reconcile go on`()
    async throws
  {
    try await withHarness { harness in
      harness.clock.advance(days: -200)
      let (user, bought) = try await harness.customer()
      _ = try await harness.subscription(renewals: 4)
      _ = try await harness.deviceBuys("phone")
      harness.clock.advance(days: 1)
      let views = try await harness.pool.answersToSupport()
      #expect(views["support_timeline"]?.count ?? 0 > 10)
      try await harness.pool.divide()
      #expect(try await harness.pool.answersToSupport() == views)

      let uuid = try #require(UUID(uuidString: bought.notification.uuid))
      #expect(try await harness.service.replay(uuid, by: "ada", reason: "a test").outcome == "unchanged")
      let lost = try harness.buy()
      harness.clock.advance(seconds: 60)
      let report = try #require(await harness.service.reconcile(bundleID: TestApps.climbing).first)
      #expect(report.failure == nil)
      #expect(report.notificationsMissed == 1)
      #expect(try await harness.row(of: lost.originalTransactionID).status == "active")
      let again = try #require(
        await harness.service.reconcile(
          since: harness.clock.now - 100 * 86_400, bundleID: TestApps.climbing
        ).first)
      #expect(again.notificationsRead > 0)
      #expect(again.notificationsMissed == 0)
      #expect(
        try await harness.profileRow(of: user)?.originalTransactionID == bought.originalTransactionID)
    }
  }

  @Test func `it can be tried again, by two at once, and after a crash at any step`() async throws {
    try await withHarness { harness in
      let before = try await harness.subscription(renewals: 0, ends: false)
      // The first step, and no more.
      _ = try await harness.pool.query(MonthRows.prepare(.notifications))
      _ = try await harness.subscription(renewals: 0, ends: false)
      // The last step, cut off before its commit.
      struct Crash: Error {}
      await #expect(throws: Crash.self) {
        try await harness.pool.withTransaction { connection in
          _ = try await connection.query(MonthRows.validate(.notifications))
          _ = try await connection.query(MonthRows.divide(.notifications))
          throw Crash()
        }
      }
      #expect(try await harness.pool.months(of: .notifications) == [])
      try await harness.happens(.setAutoRenew(false), to: before.id)

      let partitioning = Partitioning(pool: harness.pool, pause: .milliseconds(20))
      async let first = partitioning.divide(.notifications)
      async let second = partitioning.divide(.notifications)
      let divided = try await [first, second]
      #expect(divided.filter(\.self).count == 1)
      #expect(try await partitioning.divide(.notifications) == false)
      try await harness.happens(.setAutoRenew(true), to: before.id)
      #expect(try await harness.count("notifications") == 4)
      #expect(try await harness.count("pg_constraint WHERE conname = 'receiptd_months_bound'") == 0)
    }
  }

  @Test func `whoever is overtaken by somebody who divides by hand has nothing left to do`() async throws {
    try await withHarness { harness in
      _ = try await harness.subscription(renewals: 0, ends: false)
      var overtaker: Result<[Rows], any Error>?
      let isDivided = try await Partitioning(pool: harness.pool).divide(.notifications) { step in
        guard overtaker == nil, step.contains("reading") else { return }
        do {
          overtaker = .success(
            try await harness.pool.transaction(pipeline: [
              MonthRows.validate(.notifications), MonthRows.divide(.notifications),
            ]))
        } catch { overtaker = .failure(error) }
      }
      #expect(try overtaker?.get().count == 2)
      #expect(!isDivided)
      #expect(try await harness.count("pg_constraint WHERE conname = 'receiptd_months_bound'") == 0)
    }
  }

  @Test func `whoever comes while another divides waits for its turn`() async throws {
    try await withHarness { harness in
      _ = try await harness.subscription(renewals: 0, ends: false)
      let partitioning = Partitioning(pool: harness.pool, pause: .milliseconds(20))
      let (waits, tellWaits) = AsyncStream<Void>.makeStream()
      let second = Mutex<Task<Bool, any Error>?>(nil)
      let isDivided = try await partitioning.divide(.notifications) { step in
        guard step.contains("reading") else { return }
        second.withLock {
          $0 = Task {
            try await partitioning.divide(.notifications) { step in
              if step.contains("waiting") { tellWaits.yield() }
            }
          }
        }
        for await _ in waits { break }
      }
      #expect(isDivided)
      #expect(try await second.withLock({ $0 })?.value == false)
    }
  }

  @Test func `what cannot be divided for another reason is not tried for ever`() async throws {
    try await withHarness { harness in
      _ = try await harness.subscription(renewals: 0, ends: false)
      _ = try await harness.pool.query(
        """
        CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM current_setting('nobody.has_set_this'); END $$
        """)
      _ = try await harness.pool.query(
        "CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION refuse()"
      )
      var readings = 0
      let error = await #expect(throws: PostgresError.self) {
        _ = try await Partitioning(pool: harness.pool).divide(.notifications) { step in
          if step.contains("reading") { readings += 1 }
        }
      }
      #expect(error?.sqlState == "42704")
      #expect(readings == 1)
      #expect(try await harness.count("pg_constraint WHERE conname = 'receiptd_months_bound'") == 0)
    }
  }

  @Test func `whoever finds that another gave up begins anew`() async throws {
    try await withHarness { harness in
      _ = try await harness.subscription(renewals: 0, ends: false)
      let partitioning = Partitioning(pool: harness.pool, pause: .milliseconds(20))
      var readings = 0
      let isDivided = try await partitioning.divide(.notifications) { step in
        guard step.contains("reading") else { return }
        readings += 1
        guard readings == 1 else { return }
        _ = try? await harness.pool.withConnection { connection in
          try await connection.pipeline(MonthRows.giveUp(.notifications))
        }
      }
      #expect(isDivided)
      #expect(readings == 2)
    }
  }

  @Test func `what was prepared and left behind is taken back before it refuses anything`() async throws {
    try await withHarness(role: "receiptd_app") { harness in
      func bound(_ days: Int) -> Query {
        let statement =
          "ALTER TABLE notifications ADD CONSTRAINT receiptd_months_bound CHECK (signed_at < %L::timestamptz)"
        return Query(
          unescaped: "DO $$ BEGIN EXECUTE format('\(statement)', now() + interval '\(days) days'); END $$")
      }
      let left = "pg_constraint WHERE conname = 'receiptd_months_bound'"
      _ = try await harness.pool.query(bound(10))
      try await harness.service.monthsJob.makeMonths()
      #expect(try await harness.count(left) == 1)
      _ = try await harness.pool.query("ALTER TABLE notifications DROP CONSTRAINT receiptd_months_bound")
      _ = try await harness.pool.query(bound(2))
      try await harness.service.monthsJob.makeMonths()
      #expect(try await harness.count(left) == 0)
    }
  }

  @Test func `what could not come along stops it and is named, and all stays as it was`() async throws {
    try await withHarness { harness in
      let obstacles = [
        (
          "CREATE MATERIALIZED VIEW copied AS SELECT type FROM notifications",
          "materialized view public.copied"
        ),
        (
          "CREATE TABLE pointing (uuid uuid REFERENCES notifications)",
          "constraint pointing_uuid_fkey on table public.pointing"
        ),
        (
          "CREATE UNIQUE INDEX unique_claims ON notifications (md5(envelope_claims))",
          "index public.unique_claims"
        ),
        (
          "CREATE FUNCTION read_one() RETURNS SETOF notifications LANGUAGE sql AS 'TABLE notifications'",
          "function public.read_one()"
        ),
        ("CREATE PUBLICATION everything FOR TABLE notifications", "publication everything"),
      ]
      for (statement, name) in obstacles {
        _ = try await harness.pool.query(Query(unescaped: statement))
        do {
          _ = try await Partitioning(pool: harness.pool, attempts: 2, pause: .zero).divide(.notifications)
          Issue.record("\(name) was passed over")
        } catch let error as PostgresError {
          #expect(error.report?.message.contains(name) == true, "\(error.report?.message ?? "")")
        }
        #expect(try await harness.count("pg_constraint WHERE conname = 'receiptd_months_bound'") == 0)
        let kind = name.split(separator: " ").first ?? ""
        let drop: [Substring: String] = [
          "materialized": "MATERIALIZED VIEW copied", "constraint": "TABLE pointing",
          "index": "INDEX unique_claims", "function": "FUNCTION read_one()",
          "publication": "PUBLICATION everything",
        ]
        _ = try await harness.pool.query(Query(unescaped: "DROP \(try #require(drop[kind]))"))
      }
      try await harness.pool.divide()
    }
  }
}
