import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Numbers
@testable import ReceiptService

@Suite struct KPICounterTests {
  private let monthly = "com.heatlab.pro.monthly"
  private let annual = "com.heatlab.pro.annual"

  @Test
  func `a free introductory period counts as a trial, and monthly revenue is a twelfth of a yearly price`()
    async throws
  {
    try await withScreenTime { harness in
      let heatlab = ScreenTime.heatlab
      try harness.becomes("03-01")
      let tried = try await harness.account("ida", buys: monthly, of: heatlab, offer: .freeTrial())
      try await harness.account("jon", buys: annual, of: heatlab)
      try harness.becomes("03-08")
      try await harness.happens(.renew, to: tried.originalTransactionID)
      try harness.becomes("03-09")
      try await harness.countWhatIsDue()

      #expect(
        try await harness.numbers("03-01", tier: "pro", of: heatlab) == [
          "trials_started": "1", "new": "2", "active": "2", "revenue": #"{"USD": 39.99}"#,
          "mrr": #"{"USD": 3.33}"#, "revenue_per_user": #"{"USD": 3.33}"#,
        ])
      #expect(
        try await harness.numbers("03-08", tier: "pro", of: heatlab) == [
          "converted": "1", "renewed": "1", "active": "2", "revenue": #"{"USD": 4.99}"#,
          "mrr": #"{"USD": 8.32}"#, "revenue_per_user": #"{"USD": 4.16}"#,
        ])
    }
  }

  @Test func `a lifetime purchase has no monthly revenue, and a refund of half the price counts half`()
    async throws
  {
    let lifetime = "com.thaqalayn.premium.tafsir"
    let app = "com.thaqalayn.app"
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("kim", buys: lifetime, of: app)
      try await harness.account("lea", buys: lifetime, of: app)
      try harness.becomes("05-01")
      let refund = SubscriptionCommand.refund(
        transactionID: bought.transactionID, percentage: 50, reason: .refundedForOtherReason)
      try await harness.happens(refund, to: bought.originalTransactionID)
      try harness.becomes("05-02")
      try await harness.countWhatIsDue()
      #expect(
        try await harness.numbers("03-01", tier: "premium", of: app) == [
          "new": "2", "active": "2", "revenue": #"{"USD": 1.98}"#,
        ])
      // The refund counts on its own day, not on that of the purchase.
      #expect(try await harness.numbers("04-30", tier: "premium", of: app) == ["active": "2"])
      #expect(
        try await harness.numbers("05-01", tier: "premium", of: app) == [
          "refunded": "1", "active": "1", "refunds": #"{"USD": 0.50}"#,
        ])
      // A reversed refund is not counted.
      try await harness.happens(
        .reverseRefund(transactionID: bought.transactionID), to: bought.originalTransactionID)
      _ = try await harness.service.numbers.counter.count(harness.day("05-01"))
      #expect(try await harness.numbers("05-01", tier: "premium", of: app) == ["active": "2"])
    }
  }

  @Test func `the configured price counts for a transaction without a price, under each name of the product`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let app = "com.swiftclimb.app"
      for (name, currency) in [
        ("com.swiftclimb.premium.annual", nil), ("swiftclimb.premium.annual", "USD"),
        ("com.swiftclimb.premium.annual", "CHF"),
      ] {
        var info = try harness.buy(name, bundleID: app).transaction
        info.price = nil
        info.currency = currency
        let answer = try await harness.validate(["signedTransaction": harness.sign(info)])
        #expect(answer.status == 200)
      }
      try harness.becomes("03-02")
      try await harness.countWhatIsDue()
      // There is no price in CHF.
      #expect(
        try await harness.numbers("03-01", tier: "premium", of: app) == [
          "new": "3", "active": "3", "revenue": #"{"USD": 99.98}"#, "mrr": #"{"USD": 8.34}"#,
          "revenue_per_user": #"{"USD": 4.17}"#,
        ])
    }
  }

  @Test func `an upgraded subscription counts as active once, in the higher tier`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("ann", buys: ScreenTime.individual)
      try harness.becomes("03-11")
      try await harness.happens(.changeProduct(ScreenTime.family), to: bought.originalTransactionID)
      try harness.becomes("03-12")
      try await harness.countWhatIsDue()
      let before = try await harness.numbers("03-10", tier: "individual")
      #expect(before["active"] == "1")
      #expect(try await harness.numbers("03-11", tier: "individual") == [:])
      #expect(
        try await harness.numbers("03-11", tier: "family") == [
          "renewed": "1", "active": "1", "revenue": #"{"USD": 12.99}"#, "mrr": #"{"USD": 12.99}"#,
          "revenue_per_user": #"{"USD": 12.99}"#,
        ])
    }
  }

  @Test func `a purchase on the 31st is in the monthly cohort of the last day of a shorter month`()
    async throws
  {
    try await withScreenTime { harness in
      for day in ["01-28", "01-31"] {
        try harness.becomes(day)
        try await harness.account(day, buys: ScreenTime.individual)
      }
      try harness.becomes("03-02")
      try await harness.countWhatIsDue()
      let sum = try await harness.pool.query("SELECT sum(month_1_cohort)::bigint FROM kpi_daily")
      #expect(try sum[0].decode("sum", as: Int.self) == 2)
      let last = try harness.day("03-01").advanced(by: -1)
      let rows = try await harness.pool.query(
        "SELECT month_1_cohort FROM kpi_daily WHERE day::text = \(last.description)")
      let cohort = try rows[0].decode("month_1_cohort", as: Int.self)
      #expect(cohort == (last.description.hasSuffix("28") ? 2 : 1))
    }
  }

  @Test func `a tester's sandbox purchase gives access and is not counted in the KPIs`() async throws {
    let open = try ScreenTime.configuration().replacing(
      #""sandboxGrants": "nobody""#, with: #""sandboxGrants": "everyone""#)
    try await withHarness(configuration: open) { harness in
      try harness.becomes("03-01")
      #expect(try await harness.launch("tester", account: "tester", in: .sandbox).status == 201)
      let bought = try await harness.account("tester", buys: ScreenTime.individual, in: .sandbox)
      _ = try await harness.device("tester", shows: bought)
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      harness.clock.advance(seconds: 1)
      #expect(try await harness.service.numbers.counter.count(harness.day("03-01")) == 0)
      #expect(try await harness.everythingCounted() == [])
    }
  }

  @Test func `a restored purchase is not counted again in the KPIs`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("kim", buys: Thaqalayn.tafsir, of: Thaqalayn.bundleID)
      try harness.becomes("03-04")
      var restored = bought.transaction
      restored.transactionId = "2999999999999999"
      restored.purchaseDate = harness.clock.now
      restored.signedDate = harness.clock.now
      _ = try await harness.validate(["signedTransaction": harness.sign(restored)])
      // The refund counts once, although there are copies of the purchase.
      try harness.becomes("03-05")
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      restored.revocationDate = harness.clock.now
      restored.signedDate = harness.clock.now
      _ = try await harness.validate(["signedTransaction": harness.sign(restored)])
      try harness.becomes("03-06")
      try await harness.countWhatIsDue()
      #expect(
        try await harness.numbers("03-04", tier: "premium", of: Thaqalayn.bundleID) == ["active": "1"])
      #expect(
        try await harness.numbers("03-05", tier: "premium", of: Thaqalayn.bundleID) == [
          "refunded": "1", "refunds": #"{"USD": 0.99}"#,
        ])
    }
  }

  @Test func `a restored period of a subscription is not counted again, and its refund counts once`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("ann", buys: ScreenTime.individual)
      _ = try await harness.device("phone", shows: bought)
      try harness.becomes("03-03")
      var restored = bought.transaction
      restored.transactionId = "2999999999999999"
      restored.signedDate = harness.clock.now
      _ = try await harness.validate(["signedTransaction": harness.sign(restored), "deviceID": "tablet"])
      try harness.becomes("03-05")
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try harness.becomes("03-06")
      try await harness.countWhatIsDue()
      let first = try await harness.numbers("03-01", tier: "individual")
      #expect(first["new"] == "1")
      #expect(first["revenue"] == #"{"USD": 7.99}"#)
      #expect(try await harness.numbers("03-04", tier: "individual")["active"] == "1")
      let refunded = try await harness.numbers("03-05", tier: "individual")
      #expect(refunded["refunded"] == "1")
      #expect(refunded["refunds"] == #"{"USD": 7.99}"#)
      #expect(refunded["active"] == nil)
      let total = try await harness.pool.query("SELECT total_paid::text FROM support_subscriptions")
      #expect(try total[0].decode("total_paid", as: String?.self) == #"{"USD": 0.00}"#)
      let events = try await harness.pool.query(
        "SELECT event || coalesce(' ' || price, '') AS event FROM support_transactions ORDER BY transaction_id"
      )
      #expect(try events.map { try $0.decode("event", as: String.self) } == ["purchase 7.99", "restore"])
      let scrape = try await harness.scrape()
      #expect(scrape["receiptd_charges_total{app=\"\(ScreenTime.bundleID)\"}"] == 1)
      #expect(scrape["receiptd_refunds_total{app=\"\(ScreenTime.bundleID)\"}"] == 1)
    }
  }

  @Test func `a restored period that ends is counted once`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("ann", buys: ScreenTime.individual)
      _ = try await harness.device("phone", shows: bought)
      var restored = bought.transaction
      restored.transactionId = "2999999999999999"
      restored.signedDate = harness.clock.now
      _ = try await harness.validate(["signedTransaction": harness.sign(restored), "deviceID": "tablet"])
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      try harness.becomes("05-01")
      try await harness.happens(.expire(nil), to: bought.originalTransactionID)
      try await harness.countWhatIsDue()
      let rows = try await harness.pool.query("SELECT sum(expired)::bigint AS expired FROM kpi_daily")
      #expect(try rows[0].decode("expired", as: Int.self) == 1)
    }
  }

  @Test func `a purchase after a refund is counted again in the KPIs, also under the same original id`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("kim", buys: Thaqalayn.tafsir, of: Thaqalayn.bundleID)
      try harness.becomes("03-03")
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      for (day, id) in [("03-04", "2999999999999998"), ("03-05", "2999999999999999")] {
        try harness.becomes(day)
        // The second one is a copy that another device restores.
        var again = bought.transaction
        again.transactionId = id
        again.purchaseDate = harness.clock.now
        again.signedDate = harness.clock.now
        _ = try await harness.validate(["signedTransaction": harness.sign(again)])
      }
      try harness.becomes("03-06")
      try await harness.countWhatIsDue()
      let app = Thaqalayn.bundleID
      #expect(
        try await harness.numbers("03-04", tier: "premium", of: app) == [
          "new": "1", "active": "1", "revenue": #"{"USD": 0.99}"#,
        ])
      #expect(try await harness.numbers("03-05", tier: "premium", of: app) == ["active": "1"])
    }
  }
}
