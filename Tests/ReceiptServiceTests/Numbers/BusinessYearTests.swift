import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService

/// Half a year of an app's business with numbers calculated by hand.
@Suite struct BusinessYearTests {
  /// Ann, Cid and Fay have the individual plan, Ben has the family's. Ann, Ben, Cid and Dot began with a trial.
  private struct Customers {
    var ann: String
    var ben: String
    var cid: String
    var fay: String
  }

  private let usual: Int64 = 7_990

  @Test func `every KPI of half a year is as calculated by hand, also after a second count`() async throws {
    try await withScreenTime { harness in
      try await trials(harness)
      let customers = try await purchases(harness)
      try await secondMonth(customers, harness)
      try await laterMonths(customers, harness)

      try harness.becomes("07-21")
      try await harness.countWhatIsDue()
      try await expectBeginnings(harness)
      try await expectSecondMonth(harness)
      try await expectLaterMonths(harness)

      // Counting again gives the same numbers.
      let once = try await harness.everythingCounted()
      #expect(once.count > 300)
      try await harness.service.countKPIs(
        from: harness.day("01-01"), through: harness.day("07-21"), report: { _, _ in })
      #expect(try await harness.everythingCounted() == once)
    }
  }

  @Test func `erasing every customer changes no KPI, also when all days are counted again`() async throws {
    try await withScreenTime { harness in
      try await trials(harness)
      let customers = try await purchases(harness)
      try await secondMonth(customers, harness)
      try harness.becomes("03-25")
      try await harness.countWhatIsDue()
      let once = try await harness.everythingCounted()
      let views = try await harness.everythingShown()
      #expect(once.count > 50 && views.count > 50)
      let devices = try await harness.pool.query(
        """
        SELECT device_id FROM trials UNION SELECT device_id FROM subscriptions WHERE device_id IS NOT NULL
        UNION SELECT device_id FROM purchase_devices
        """
      ).map { try $0.decode("device_id", as: String.self) }
      #expect(devices.count > 3)
      for device in devices { try await harness.erase(device) }
      try await harness.service.countKPIs(
        from: harness.day("01-01"), through: harness.day("03-25"), report: { _, _ in })
      let (counted, shown) = (try await harness.everythingCounted(), try await harness.everythingShown())
      #expect(Set(counted).symmetricDifference(once) == [])
      #expect(Set(shown).symmetricDifference(views) == [])
      #expect(counted.count == once.count && shown.count == views.count)
    }
  }

  private func trials(_ harness: Harness) async throws {
    try harness.becomes("01-10")
    for name in ["ann", "ben", "cid", "dot"] {
      #expect(try await harness.launch(name, account: name).status == 201)
    }
    // Another device of Ann continues her trial, and a sandbox trial does not count.
    #expect(try await harness.launch("ann's other phone", account: "ann").status == 200)
    #expect(try await harness.launch("tester", account: "tester", in: .sandbox).status == 422)
  }

  private func purchases(_ harness: Harness) async throws -> Customers {
    try harness.becomes("01-20")
    let ann = try await harness.account("ann", buys: ScreenTime.individual)
    let ben = try await harness.account("ben", buys: ScreenTime.family)
    try harness.sell(ScreenTime.individual, at: 8_490, "EUR")
    // Cid buys with another Apple Account, on the device that had the trial.
    let cid = try await harness.account("cid's spouse", buys: ScreenTime.individual)
    _ = try await harness.device("cid", shows: cid)
    try harness.sell(ScreenTime.individual, at: usual, "USD")
    let fay = try await harness.account("fay", buys: ScreenTime.individual)
    // A tester and a member of Ben's family do not pay.
    try await harness.account("tester", buys: ScreenTime.individual, in: .sandbox)
    try await harness.happens(.share(accountID: "ben's child"), to: ben.originalTransactionID)
    return Customers(
      ann: ann.originalTransactionID, ben: ben.originalTransactionID, cid: cid.originalTransactionID,
      fay: fay.originalTransactionID)
  }

  private func secondMonth(_ customers: Customers, _ harness: Harness) async throws {
    try harness.becomes("02-01")
    try await harness.happens(.setAutoRenew(false), to: customers.cid)
    try harness.becomes("02-05")
    try await harness.happens(.setAutoRenew(false), to: customers.fay)
    harness.clock.advance(seconds: 60)
    try await harness.happens(.setAutoRenew(true), to: customers.fay)
    try harness.becomes("02-20")
    for renewing in [customers.ann, customers.ben, customers.fay] {
      try await harness.happens(.renew, to: renewing)
    }
    try await harness.happens(.expire(nil), to: customers.cid)
    try harness.becomes("02-25")
    try await harness.happens(.refundLatest, to: customers.fay)
  }

  private func laterMonths(_ customers: Customers, _ harness: Harness) async throws {
    try harness.becomes("03-20")
    try await harness.happens(.renew, to: customers.ann)
    // The charge fails, and succeeds three days later.
    try await harness.happens(.failToRenew(grace: false), to: customers.ben)
    try harness.becomes("03-23")
    try await harness.happens(.recover, to: customers.ben)
    try harness.becomes("04-20")
    try await harness.happens(.renew, to: customers.ann)
    try harness.becomes("04-22")
    try await harness.happens(.setAutoRenew(false), to: customers.ben)
    try harness.becomes("04-23")
    try await harness.happens(.expire(nil), to: customers.ben)
    for month in ["05", "06", "07"] {
      try harness.becomes("\(month)-20")
      try await harness.happens(.renew, to: customers.ann)
    }
  }

  private func expectBeginnings(_ harness: Harness) async throws {
    #expect(try await harness.numbers("01-10", tier: nil) == ["trials_started": "4"])
    #expect(try await harness.numbers("01-10", tier: "individual") == [:])

    #expect(
      try await harness.numbers("01-20", tier: "individual") == [
        "new": "3", "converted": "2", "active": "3", "revenue": #"{"EUR": 8.49, "USD": 15.98}"#,
        "mrr": #"{"EUR": 8.49, "USD": 15.98}"#, "revenue_per_user": #"{"EUR": 8.49, "USD": 7.99}"#,
      ])
    #expect(
      try await harness.numbers("01-20", tier: "family") == [
        "new": "1", "converted": "1", "active": "1", "revenue": #"{"USD": 12.99}"#,
        "mrr": #"{"USD": 12.99}"#, "revenue_per_user": #"{"USD": 12.99}"#,
      ])
    // No events; active subscriptions stay active.
    #expect(
      try await harness.numbers("01-21", tier: "family") == [
        "active": "1", "mrr": #"{"USD": 12.99}"#, "revenue_per_user": #"{"USD": 12.99}"#,
      ])
  }

  private func expectSecondMonth(_ harness: Harness) async throws {
    let running = [
      "active": "3", "mrr": #"{"EUR": 8.49, "USD": 15.98}"#,
      "revenue_per_user": #"{"EUR": 8.49, "USD": 7.99}"#,
    ]
    #expect(
      try await harness.numbers("02-01", tier: "individual") == running.merging(["cancelled": "1"]) { $1 })
    // Fay turned renewal on again.
    #expect(try await harness.numbers("02-05", tier: "individual") == running)

    #expect(
      try await harness.numbers("02-20", tier: "individual") == [
        "renewed": "2", "expired": "1", "active": "2", "revenue": #"{"USD": 15.98}"#,
        "mrr": #"{"USD": 15.98}"#, "revenue_per_user": #"{"USD": 7.99}"#, "month_1_cohort": "3",
        "month_1_lost": "1", "churn_month_1": "0.3333",
      ])
    #expect(
      try await harness.numbers("02-20", tier: "family") == [
        "renewed": "1", "active": "1", "revenue": #"{"USD": 12.99}"#, "mrr": #"{"USD": 12.99}"#,
        "revenue_per_user": #"{"USD": 12.99}"#, "month_1_cohort": "1",
      ])
    // The refund, five days after the purchase; the App Store turns renewal off because of it.
    #expect(
      try await harness.numbers("02-25", tier: "individual") == [
        "refunded": "1", "cancelled": "1", "active": "1", "refunds": #"{"USD": 7.99}"#,
        "mrr": #"{"USD": 7.99}"#, "revenue_per_user": #"{"USD": 7.99}"#,
      ])
  }

  private func expectLaterMonths(_ harness: Harness) async throws {
    #expect(try await harness.numbers("03-20", tier: "family") == ["expired": "1"])
    #expect(try await harness.numbers("03-22", tier: "family") == [:])
    #expect(
      try await harness.numbers("03-23", tier: "family") == [
        "renewed": "1", "active": "1", "revenue": #"{"USD": 12.99}"#, "mrr": #"{"USD": 12.99}"#,
        "revenue_per_user": #"{"USD": 12.99}"#,
      ])
    let ann = [
      "renewed": "1", "active": "1", "revenue": #"{"USD": 7.99}"#, "mrr": #"{"USD": 7.99}"#,
      "revenue_per_user": #"{"USD": 7.99}"#,
    ]
    // Of Ann, Cid and Fay, Ann is left.
    #expect(
      try await harness.numbers("04-20", tier: "individual")
        == ann.merging(["month_3_cohort": "3", "month_3_lost": "2", "churn_month_3": "0.6667"]) { $1 })
    #expect(
      try await harness.numbers("04-20", tier: "family") == [
        "active": "1", "mrr": #"{"USD": 12.99}"#, "revenue_per_user": #"{"USD": 12.99}"#,
        "month_3_cohort": "1",
      ])
    #expect(
      try await harness.numbers("04-22", tier: "family") == [
        "cancelled": "1", "active": "1", "mrr": #"{"USD": 12.99}"#,
        "revenue_per_user": #"{"USD": 12.99}"#,
      ])
    #expect(try await harness.numbers("04-23", tier: "family") == ["expired": "1"])
    #expect(
      try await harness.numbers("07-20", tier: "individual")
        == ann.merging(["month_6_cohort": "3", "month_6_lost": "2", "churn_month_6": "0.6667"]) { $1 })
    #expect(
      try await harness.numbers("07-20", tier: "family") == [
        "month_6_cohort": "1", "month_6_lost": "1", "churn_month_6": "1.0000",
      ])
  }
}
