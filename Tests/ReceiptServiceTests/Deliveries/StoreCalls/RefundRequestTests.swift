import Actions
import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Deliveries
@testable import Ledger
@testable import ReceiptService
@testable import Support

@Suite struct RefundRequestTests {
  private static let facts = Harness.apps(#""refundAnswers": "facts""#)
  private static let decline = Harness.apps(#""refundAnswers": "prefer-decline""#)

  @Test func `with the customer's consent a refund request is answered once, and the answer is written down`()
    async throws
  {
    try await withHarness(configuration: Self.decline) { harness in
      let (user, bought) = try await harness.customer()
      let consent = try await harness.consent(true, of: user)
      #expect(consent.status == 200)
      #expect(consent.bool("consent") == true)
      #expect(consent.date("since") == harness.clock.now)
      harness.clock.advance(days: 15)
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      try await harness.service.deliveries.storeCalls.run()

      let reports = harness.store.consumptionReports
      #expect(reports.map(\.transactionID) == [bought.transactionID])
      let body = try #require(reports.first?.body)
      #expect(body.customerConsented)
      #expect(body.deliveryStatus == .delivered)
      #expect(body.refundPreference == .decline)
      #expect(body.sampleContentProvided)
      #expect(body.consumptionPercentage == nil)
      #expect(
        try await harness.storeCalls() == [StoreCallRow(kind: "consumption", outcome: "sent", attempts: 0)])
      let records = try await harness.refundRecords()
      #expect(records.count == 1)
      #expect(records.first?.hasPrefix("policy: told the App Store: prefers no refund; delivered, ") == true)
      let timeline = try await harness.pool.query(
        "SELECT event FROM support_timeline WHERE user_id = \(user) AND event = 'refund-answer'")
      #expect(timeline.count == 1)
    }
  }

  @Test func `an answer that a server had begun to send is sent or unknown after the consent is withdrawn`()
    async throws
  {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      try await harness.requestsRefund(of: bought)
      // The server died after it had written the answer, and perhaps had sent it.
      let body = #"{"customerConsented": true, "deliveryStatus": "DELIVERED", "sampleContentProvided": true}"#
      let call = try await harness.value("SELECT id AS value FROM store_calls", as: Int64.self)
      _ = try await harness.pool.query(StoreCallRows.record(JSONText(body), preferredBy: nil, of: call))
      _ = try await harness.consent(false, of: user)
      harness.clock.advance(seconds: 12 * 3_600 + 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.isEmpty)
      #expect(try await harness.storeCalls().map(\.outcome) == ["unknown"])
      let record = try #require(try await harness.refundRecords().first)
      #expect(record.hasPrefix("policy: sent or unknown: "), "\(record)")
    }
  }

  @Test
  func `a consent in the last minutes wakes the waiting answer, and support is told that it is missing`()
    async throws
  {
    try await withHarness(configuration: Self.facts) { harness in
      let ada = try #require(Harness.ada)
      let (user, bought) = try await harness.customer()
      try await harness.requestsRefund(of: bought)
      harness.clock.advance(seconds: 12 * 3_600 - 120)
      try await harness.service.deliveries.storeCalls.run()
      let missing = try await harness.desk.preferRefund(.grant, for: bought.transactionID, by: ada)
      #expect(missing.description.contains("the customer has not consented"), "\(missing)")
      _ = try await harness.consent(true, of: user)
      harness.clock.advance(seconds: 5)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.count == 1)
      let given = try await harness.desk.preferRefund(.grant, for: bought.transactionID, by: ada)
      #expect(!given.description.contains("has not consented"))
    }
  }

  @Test func `a preference for a device that shares the purchase counts`() async throws {
    let configuration = try ScreenTime.configuration().replacing(
      #""bundleID": "com.screentimerewards","#,
      with: #""bundleID": "com.screentimerewards", "refundAnswers": "facts","#)
    try await withHarness(configuration: configuration) { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("tablet", shows: bought)
      let told = try await harness.desk.preferRefund(.decline, for: "tablet", by: #require(Harness.ada))
      #expect(told.purchases == [bought.originalTransactionID])
      let preference = try await harness.pool.query(
        RefundAnswerRows.preference(of: bought.originalTransactionID))
      #expect(try RefundAnswerRows.decodePreference(preference)?.choice == .decline)
    }
  }

  @Test func `a preference is of a customer or a purchase, and not of what leads to them`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("parent", buys: ScreenTime.family)
      _ = try await harness.pair("kid-1", to: "parent")
      let order = try #require(bought.orderID)
      _ = try await harness.pool.query(
        """
        INSERT INTO store_orders (order_id, transaction_id, original_transaction_id, bundle_id, environment, looked_up_at)
        VALUES (\(order), \(bought.transactionID), \(bought.originalTransactionID), \(ScreenTime.bundleID), 'Production',
          now())
        """)
      let ada = try #require(Harness.ada)
      for id in ["kid-1", order, "PARENT", "#parent"] {
        let refused = try await refusal {
          _ = try await harness.desk.preferRefund(.grant, for: id, by: ada)
        }
        #expect(refused == .notFound, "\(id)")
      }
      #expect(try await harness.desk.preferRefund(.grant, for: "parent", by: ada).purchases.count == 1)
    }
  }

  @Test func `a preference is found without a scan of support's record`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.desk.preferRefund(
        .decline, for: user.uuidString.lowercased(), by: #require(Harness.ada))
      _ = try await harness.pool.query(
        """
        INSERT INTO support_actions (action, bundle_id, original_transaction_id, to_customer, customer_kind, by, reason)
        SELECT 'transfer', \(TestApps.climbing), (n % 7)::text, 'phone-' || n, 'device', 'policy', 'another device'
        FROM generate_series(1, 20000) AS n
        """)
      for isAnalyzed in [false, true] {
        if isAnalyzed { _ = try await harness.pool.query("ANALYZE support_actions") }
        try await harness.pool.withTransaction { connection in
          // They count since the session last reported them.
          let counts: Query = """
            SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'support_actions'
            """
          let answers = try await connection.pipeline([
            counts, RefundAnswerRows.preference(of: bought.originalTransactionID), counts,
          ])
          #expect(try RefundAnswerRows.decodePreference(answers[1])?.choice == .decline)
          let scans = try [answers[0], answers[2]].map { try $0[0].decode("seq_scan", as: Int.self) }
          #expect(scans[0] == scans[1])
        }
      }
    }
  }

  @Test func `without consent nothing is sent, and that is written down at the deadline`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      #expect(try await harness.consent(true, of: user).status == 200)
      #expect(try await harness.consent(false, of: user).bool("consent") == false)
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == [nil])
      harness.clock.advance(seconds: 12 * 3_600 + 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.isEmpty)
      #expect(try await harness.storeCalls().map(\.outcome) == ["no_consent"])
      #expect(try await harness.refundRecords() == ["policy: not answered: the customer has not consented"])
      #expect(
        try await harness.scrape()[
          #"receiptd_queued_store_calls_total{app="com.example.climbing",call="consumption",outcome="no_consent"}"#
        ]
          == 1)
    }
  }

  @Test func `a consent that comes within the 12 hours is in time`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      harness.clock.advance(seconds: 3_600)
      _ = try await harness.consent(true, of: user)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.count == 1)
    }
  }

  @Test func `an app with the policy none answers nothing, unless support sets a preference`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let (other, second) = try await harness.customer()
      for user in [user, other] { _ = try await harness.consent(true, of: user) }
      for bought in [bought, second] { try await harness.requestsRefund(of: bought) }
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.isEmpty)

      let ada = try #require(Harness.ada)
      let result = try await harness.desk.preferRefund(.grant, for: user.uuidString, by: ada)
      #expect(result.openRequests == 1)
      #expect(result.purchases == [bought.originalTransactionID])
      harness.clock.advance(seconds: 300)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.map(\.body.refundPreference) == [.grantFull])

      harness.clock.advance(seconds: 12 * 3_600 + 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["sent", "no_answer"])
    }
  }

  @Test func `a preference for a purchase wins over one for its customer, the latest first`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      let ada = try #require(Harness.ada)
      for (choice, id) in [
        (RefundChoice.grant, bought.transactionID), (.decline, bought.transactionID),
        (.none, user.uuidString),
      ] as [(RefundChoice, String)] {
        let result = try await harness.desk.preferRefund(choice, for: id, by: ada)
        #expect(result.openRequests == 0)
      }
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(harness.store.consumptionReports.map(\.body.refundPreference) == [.decline])
      #expect(
        try await refusal { _ = try await harness.desk.preferRefund(.grant, for: "1", by: ada) } == .notFound)
    }
  }

  @Test func `a repeated question of one transaction is answered once, a later question again`() async throws
  {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      for _ in 1...3 { try await harness.requestsRefund(of: bought) }
      while try await harness.service.deliveries.storeCalls.run() > 0 {}
      #expect(harness.store.consumptionReports.count == 1)
      #expect(try await harness.storeCalls().map(\.outcome) == ["sent", "repeated", "repeated"])
      harness.clock.advance(days: 2)
      let again = try await harness.requestsRefund(of: bought)
      // The same notification once more changes nothing.
      await harness.arrives(again.notification)
      while try await harness.service.deliveries.storeCalls.run() > 0 {}
      #expect(harness.store.consumptionReports.count == 2)
    }
  }

  @Test func `an outage delays the answer, another server continues, and the deadline ends it`() async throws
  {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      harness.store.add(.unauthorized.at(.consumption))
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(
        try await harness.storeCalls() == [StoreCallRow(kind: "consumption", outcome: nil, attempts: 1)])
      harness.store.clearServerFaults()
      harness.clock.advance(seconds: 3_600)
      let other = try await harness.service(configuration: Self.facts)
      try await other.deliveries.storeCalls.run()
      await other.close()
      #expect(harness.store.consumptionReports.count == 1)

      let (late, second) = try await harness.customer()
      _ = try await harness.consent(true, of: late)
      harness.store.add(.unauthorized.at(.consumption))
      try await harness.requestsRefund(of: second)
      try await harness.service.deliveries.storeCalls.run()
      harness.clock.advance(seconds: 12 * 3_600 + 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["sent", "late"])
      #expect(
        try await harness.scrape()[
          #"receiptd_queued_store_calls_total{app="com.example.climbing",call="consumption",outcome="late"}"#]
          == 1)
    }
  }

  @Test func `a refusal of the App Store ends the request and is written down`() async throws {
    try await withHarness(configuration: Self.facts) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      harness.store.add(.error(.transactionIdNotFound).at(.consumption).next(1))
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["refused"])
      #expect(
        try await harness.refundRecords() == [
          "policy: the App Store refused the answer: status 404, code 4040010"
        ])
    }
  }

  @Test func `doctor fails for an app that answers about refunds and has no key`() async throws {
    let keyless = ["APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": ""]
    try await withHarness(configuration: Self.facts, environment: keyless) { harness in
      var failures: [String] = []
      _ = await Doctor(environment: harness.environment).check { if !$0.isOK { failures.append($0.line) } }
      #expect(failures.contains { $0.contains("refundAnswers or tellAccountToken needs one") })
    }
  }

  @Test func `Apple's library reads the answer and would send the same body`() async throws {
    try await withHarness(configuration: Self.decline) { harness in
      let (user, bought) = try await harness.customer()
      _ = try await harness.consent(true, of: user)
      try await harness.requestsRefund(of: bought)
      try await harness.service.deliveries.storeCalls.run()
      let sent = try #require(harness.store.acceptedRequests.first { $0.endpoint == .consumption })
      let parsed = try await AppleModels.parse([("ConsumptionRequest", sent.body)])
      let body = try AppleModels.sorted(sent.body)
      #expect(parsed == [body])
    }
  }
}
