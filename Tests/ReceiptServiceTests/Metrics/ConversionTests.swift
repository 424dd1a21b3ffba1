import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// A trial is converted by the first paid purchase: the metrics and `kpi_daily` count alike.
@Suite struct ConversionTests {
  private static let app = ScreenTime.bundleID

  /// Buys on a device for an Apple Account. The notification arrives, and the device validates the purchase.
  @discardableResult
  private static func account(
    _ account: String, with device: String, buysWith offer: StoreOffer?, _ harness: Harness
  ) async throws -> SignedOutcome {
    let bought = try await harness.account(account, buys: ScreenTime.individual, offer: offer)
    _ = try await harness.device(device, shows: bought)
    return bought
  }

  /// The conversions by the gauge, by the counter, and by all days of `kpi_daily`.
  private static func conversions(_ harness: Harness, ended: Double = 1) async throws -> [Double] {
    await harness.service.readDatabaseGauges()
    try await harness.countWhatIsDue()
    let scrape = try await harness.scrape()
    #expect(scrape["receiptd_trials_ended_recently{app=\"\(app)\"}"] == ended)
    let rows = try await harness.pool.query(
      "SELECT coalesce(sum(converted), 0)::bigint AS converted FROM kpi_daily WHERE bundle_id = \(app)")
    return [
      try #require(scrape["receiptd_trials_ended_recently_converted{app=\"\(app)\"}"]),
      try #require(scrape["receiptd_trials_converted_total{app=\"\(app)\"}"]),
      Double(try rows[0].decode("converted", as: Int.self)),
    ]
  }

  @Test func `a free introductory month is not a charge and converts at its first paid renewal`() async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      #expect(try await harness.launch("phone", account: "ann").status == 201)
      try harness.becomes("03-20")
      let bought = try await Self.account("ann", with: "phone", buysWith: .freeTrial(.month), harness)
      try harness.becomes("04-02")
      #expect(try await Self.conversions(harness) == [0, 0, 0])
      var scrape = try await harness.scrape()
      #expect(scrape["receiptd_purchases_total{app=\"\(Self.app)\"}"] == 1)
      #expect(scrape["receiptd_charges_total{app=\"\(Self.app)\"}"] == 0)

      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      try harness.becomes("04-22")
      // The payment converts the app's own trial and the App Store's.
      #expect(try await Self.conversions(harness, ended: 2) == [2, 2, 2])
      harness.clock.set(try #require(renewed.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      scrape = try await harness.scrape()
      #expect(scrape["receiptd_trials_converted_total{app=\"\(Self.app)\"}"] == 2)
      #expect(scrape["receiptd_charges_total{app=\"\(Self.app)\"}"] == 2)
      #expect(scrape["receiptd_renewals_total{app=\"\(Self.app)\"}"] == 1)
      #expect(scrape["receiptd_renewals_due_total{app=\"\(Self.app)\"}"] == 1)
    }
  }

  @Test func `a free month with a transaction without a price does not convert`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      #expect(try await harness.launch("phone", account: "ann").status == 201)
      try harness.becomes("03-20")
      let request = PurchaseRequest(
        bundleID: Self.app, productID: ScreenTime.individual, accountID: "ann", offer: .freeTrial(.month))
      var info = try harness.store.buy(request, in: .production).transaction
      info.price = nil
      let signed = try harness.sign(info)
      #expect(try await harness.validate(["signedTransaction": signed, "deviceID": "phone"]).status == 200)
      try harness.becomes("04-02")
      #expect(try await Self.conversions(harness) == [0, 0, 0])
      var scrape = try await harness.scrape()
      #expect(scrape["receiptd_charges_total{app=\"\(Self.app)\"}"] == 0)

      harness.clock.set(try #require(info.expiresDate))
      try await harness.happens(.renew, to: info.originalTransactionId)
      try harness.becomes("04-22")
      #expect(try await Self.conversions(harness, ended: 2) == [2, 2, 2])
      scrape = try await harness.scrape()
      #expect(scrape["receiptd_charges_total{app=\"\(Self.app)\"}"] == 1)
    }
  }

  @Test func `a purchase without an offer counts as a conversion at once`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      #expect(try await harness.launch("phone", account: "ann").status == 201)
      try harness.becomes("03-20")
      try await Self.account("ann", with: "phone", buysWith: nil, harness)
      try harness.becomes("04-02")
      #expect(try await Self.conversions(harness) == [1, 1, 1])
    }
  }

  @Test func `a purchase on another device of the Apple Account converts the trial`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      #expect(try await harness.launch("phone", account: "ann").status == 201)
      #expect(try await harness.launch("tablet", account: "ann").status == 200)
      try harness.becomes("03-20")
      try await Self.account("ann", with: "tablet", buysWith: nil, harness)
      try harness.becomes("04-02")
      #expect(try await Self.conversions(harness) == [1, 1, 1])
    }
  }

  @Test func `a customer that paid before the trial does not count as a conversion`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      try await Self.account("ann", with: "phone", buysWith: nil, harness)
      try harness.becomes("03-02")
      #expect(try await harness.launch("phone", account: "ann").status == 201)
      try harness.becomes("04-03")
      #expect(try await Self.conversions(harness) == [0, 0, 0])
    }
  }

  @Test func `a free period that ends without a payment does not count as a renewal due`() async throws {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      let bought = try await harness.account("ann", buys: ScreenTime.individual, offer: .freeTrial())
      try await harness.happens(.setAutoRenew(false), to: bought.originalTransactionID)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.expire(nil), to: bought.originalTransactionID)
      let scrape = try await harness.scrape()
      #expect(scrape["receiptd_renewals_due_total{app=\"\(Self.app)\"}"] == 0)
    }
  }

  @Test func `a trial of the app's own and one of the App Store count alike in the metrics and in kpi_daily`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      #expect(try await harness.launch("phone", account: "ann").status == 201)
      #expect(try await harness.launch("tablet", account: "ann").status == 200)
      try await harness.account("ben", buys: ScreenTime.individual, offer: .freeTrial())
      try await harness.account("cid", buys: ScreenTime.individual)
      try await harness.account("tester", buys: ScreenTime.individual, offer: .freeTrial(), in: .sandbox)
      try harness.becomes("04-02")
      await harness.service.readDatabaseGauges()
      try await harness.countWhatIsDue()
      await harness.service.readDatabaseGauges()
      let scrape = try await harness.scrape()
      let cohorts = try await harness.pool.query(
        """
        SELECT sum(started)::bigint AS started, sum(converted)::bigint AS converted, sum(lapsed)::bigint AS lapsed,
          (SELECT sum(trials_started)::bigint FROM kpi_daily) AS daily
        FROM kpi_trial_cohorts
        """)
      for column in ["started", "daily"] {
        #expect(
          scrape["receiptd_trials_started_total{app=\"\(Self.app)\"}"]
            == Double(try cohorts[0].decode(column, as: Int.self)))
      }
      #expect(try cohorts[0].decode("started", as: Int.self) == 2)
      #expect(
        scrape["receiptd_trials_ended_recently{app=\"\(Self.app)\"}"]
          == Double(try cohorts[0].decode("lapsed", as: Int.self)))
      #expect(try cohorts[0].decode("converted", as: Int.self) == 0)
      #expect(scrape["receiptd_active_subscribers{app=\"\(Self.app)\",plan=\"paying\"}"] == 0)
    }
  }
}
