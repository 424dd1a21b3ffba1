import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// Scenarios of ScreenTime Rewards' subscriptions; `TrialScenarioTests` has the trial.
@Suite struct ScreenTimeScenarioTests {
  /// The statuses that its clients know, and whether each grants access.
  private func expect(
    _ device: String, _ status: String, tier: String? = nil, in harness: Harness,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let answer = try await harness.entitlements(device)
    #expect(answer.string("entitlements.status") == status, sourceLocation: sourceLocation)
    #expect(answer.string("entitlements.tier") == tier, sourceLocation: sourceLocation)
    let grants = ["trial", "active", "grace"].contains(status)
    #expect(answer.bool("entitlements.isAccessGranted") == grants, sourceLocation: sourceLocation)
  }

  @Test func `a ScreenTime trial lasts 30 days, then 7 days of grace, then lockout`() async throws {
    try await withScreenTime { harness in
      #expect(try await harness.launch("phone", account: "anna").status == 201)
      for day in 0..<38 {
        // A launch each day starts no new trial.
        #expect(try await harness.launch("phone", account: "anna").string("trial.startedAt") != nil)
        let state = day < 30 ? "trial" : day < 37 ? "grace" : "lockout"
        try await expect("phone", state == "lockout" ? "expired" : state, in: harness)
        #expect(try await harness.entitlements("phone").features == ScreenTime.promised[state], "day \(day)")
        harness.clock.advance(days: 1)
      }
      try await expect("phone", "expired", in: harness)
      #expect(try await harness.count("trials") == 1)
    }
  }

  @Test func `a ScreenTime purchase during the trial gives the purchased tier`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      harness.clock.advance(days: 10)
      try await harness.device("phone", buys: ScreenTime.family)
      try await expect("phone", "active", tier: "family", in: harness)
      #expect(try await harness.entitlements("phone").features == ScreenTime.promised["family"])
    }
  }

  @Test func `a reinstalled ScreenTime app restores its purchase by transaction and by id`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      // A reinstall on the same device: the app's own state is gone, and StoreKit has the transaction.
      let restored = try await harness.device("phone", shows: bought)
      #expect(restored.string("subscription.status") == "active")
      try await expect("phone", "active", tier: "individual", in: harness)
      // The app's clients also send the bare transaction id.
      let byID = try await harness.validate([
        "transactionID": bought.transactionID, "deviceID": "phone", "bundleID": ScreenTime.bundleID,
      ])
      #expect(byID.string("entitlements.tier") == "individual")
      #expect(try await harness.count("subscriptions") == 1)
    }
  }

  @Test func `a ScreenTime restore of an unknown transaction id gets 404`() async throws {
    try await withScreenTime { harness in
      let none = try await harness.validate([
        "transactionID": "100000000000001", "deviceID": "phone", "bundleID": ScreenTime.bundleID,
      ])
      #expect(none.status == 404)
      #expect(none.code == "transaction_not_found")
      try await expect("phone", "expired", in: harness)
    }
  }

  @Test func `a ScreenTime upgrade allows the pairing of a second device`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      try await harness.pair(1, to: "phone")
      let refused = try await harness.pair("child-2", to: "phone")
      #expect(refused.code == "device_limit_reached")
      #expect(refused.string("error") == "Your plan allows 1 device. Upgrade to pair more.")
      harness.clock.advance(seconds: 60)
      try await harness.happens(.changeProduct(ScreenTime.family), to: bought.originalTransactionID)
      #expect(try await harness.pair("child-2", to: "phone").status == 201)
      #expect(try await harness.children(of: "phone").children == ["child-1 active", "child-2 active"])
    }
  }

  @Test
  func `a ScreenTime subscription has grace after a failed charge, and a recovery or an expiry after it`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      let id = bought.originalTransactionID
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end)
      try await harness.happens(.failToRenew(grace: false), to: id)
      try await expect("phone", "grace", tier: "individual", in: harness)
      #expect(try await harness.entitlements("phone").features == ScreenTime.promised["grace"])
      harness.clock.advance(days: 3)
      try await harness.happens(.recover, to: id)
      try await expect("phone", "active", tier: "individual", in: harness)

      // The next grace period ends without a payment.
      let next = try #require(try await harness.row(of: id).expiry)
      harness.clock.set(next)
      try await harness.happens(.failToRenew(grace: false), to: id)
      harness.clock.set(next + 7 * ScreenTime.day - 1)
      try await expect("phone", "grace", tier: "individual", in: harness)
      harness.clock.set(next + 7 * ScreenTime.day)
      try await expect("phone", "expired", in: harness)
      #expect(try await harness.entitlements("phone").features == ScreenTime.promised["lockout"])
    }
  }

  @Test func `a ScreenTime device may be offline for seven days and then sees a renewal`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      let answer = try await harness.entitlements("phone")
      #expect(answer.date("entitlements.offlineGraceUntil") == harness.clock.now + 7 * ScreenTime.day)
      // Events during the offline time are visible when the device is back.
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      harness.clock.advance(days: 6)
      try await expect("phone", "active", tier: "family", in: harness)
    }
  }

  @Test func `a ScreenTime purchase during an App Store outage gets 503 and succeeds at the retry`()
    async throws
  {
    try await withScreenTime { harness in
      // The notification is lost too.
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      let body = [
        "transactionID": bought.transactionID, "deviceID": "phone", "bundleID": ScreenTime.bundleID,
      ]
      harness.store.add(.error(.generalInternal))
      let away = try await harness.validate(body)
      #expect(away.status == 503)
      #expect(away.code == "store_unavailable")
      #expect(away.headers[.retryAfter] != nil)
      try await expect("phone", "expired", in: harness)
      // Signed data needs no request to the App Store.
      let signed = try await harness.validate([
        "signedTransaction": bought.signedTransaction, "deviceID": "tablet",
      ])
      #expect(signed.string("entitlements.tier") == "individual")

      let other = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let again = [
        "transactionID": other.transactionID, "deviceID": "phone", "bundleID": ScreenTime.bundleID,
      ]
      #expect(try await harness.validate(again).status == 503)
      harness.store.clearServerFaults()
      let retried = try await harness.validate(again)
      #expect(retried.status == 200)
      #expect(retried.string("entitlements.tier") == "family")
      try await expect("phone", "active", tier: "family", in: harness)
      // A late notification does not add a second purchase.
      for purchase in [bought, other] { try await harness.arrives(purchase) }
      #expect(try await harness.count("subscriptions") == 2)
      try await expect("tablet", "active", tier: "individual", in: harness)
    }
  }

  @Test func `two ScreenTime devices of one Apple Account share the trial and the purchase`() async throws {
    try await withScreenTime { harness in
      // Both share one trial.
      #expect(try await harness.launch("phone", account: "anna").status == 201)
      harness.clock.advance(days: 20)
      let second = try await harness.launch("tablet", account: "anna")
      #expect(second.status == 200)
      #expect(second.date("trial.endsAt") == harness.clock.now + 10 * ScreenTime.day)

      // Both have access, also after another launch, and without support.
      let bought = try harness.store.buy(
        PurchaseRequest(
          bundleID: ScreenTime.bundleID, productID: ScreenTime.family, accountID: "anna"))
      for device in ["phone", "tablet", "phone"] {
        let shown = try await harness.device(device, shows: bought)
        #expect(shown.string("entitlements.tier") == "family")
        harness.clock.advance(seconds: 60)
      }
      for device in ["phone", "tablet"] { try await expect(device, "active", tier: "family", in: harness) }
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "phone")
      #expect(
        try await harness.actions().map { [$0.action, $0.from ?? "", $0.to ?? ""] } == [
          ["share", "phone", "tablet"]
        ])
      // A renewal and a refund reach both.
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      for device in ["phone", "tablet"] { try await expect(device, "active", tier: "family", in: harness) }
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      for device in ["phone", "tablet"] { try await expect(device, "cancelled", in: harness) }
    }
  }

  @Test func `a reinstalled ScreenTime app with a new device id has access and no second trial`() async throws
  {
    try await withScreenTime { harness in
      #expect(try await harness.launch("phone", account: "anna").status == 201)
      let bought = try harness.store.buy(
        PurchaseRequest(
          bundleID: ScreenTime.bundleID, productID: ScreenTime.family, accountID: "anna"))
      _ = try await harness.device("phone", shows: bought)
      // The app has a new device id after each reinstall. The purchase is active, and no answer is 409.
      for number in 1...12 {
        harness.clock.advance(seconds: 3_600)
        // The reinstall starts no second trial.
        #expect(try await harness.launch("phone-\(number)", account: "anna").status == 200)
        let shown = try await harness.device("phone-\(number)", shows: bought)
        #expect(shown.string("entitlements.tier") == "family")
      }
      #expect(try await harness.count("trials WHERE continues IS NULL") == 1)
      // Ten devices have it, and the ones that were not seen for the longest time left first.
      let having = try await harness.pool.query("SELECT device_id FROM purchase_devices ORDER BY proved_at")
      #expect(
        try having.map { try $0.decode("device_id", as: String.self) } == (3...12).map { "phone-\($0)" })
      // As many devices share the trial.
      for device in ["phone", "phone-1", "phone-2"] {
        #expect(try await harness.entitlements(device).string("entitlements.status") == "expired")
      }
      for number in 3...12 { try await expect("phone-\(number)", "active", tier: "family", in: harness) }
    }
  }

  @Test func `a ScreenTime purchase is shared with a family member until it is revoked`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("parent", buys: ScreenTime.family)
      let shared = try harness.store.perform(
        .share(accountID: "other-parent"), on: bought.originalTransactionID)
      try await harness.arrives(shared)
      // The member's purchase has its own id, so nothing is transferred.
      #expect(shared.originalTransactionID != bought.originalTransactionID)
      let member = try await harness.device("member", shows: shared)
      #expect(member.string("subscription.ownership") == "FAMILY_SHARED")
      try await expect("member", "active", tier: "family", in: harness)
      try await expect("parent", "active", tier: "family", in: harness)

      harness.clock.advance(days: 1)
      try await harness.happens(.revoke, to: shared.originalTransactionID)
      try await expect("member", "cancelled", in: harness)
      try await expect("parent", "active", tier: "family", in: harness)
    }
  }

  @Test func `a refund of a ScreenTime purchase ends access`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      harness.clock.advance(days: 2)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      try await expect("phone", "cancelled", in: harness)
      #expect(try await harness.entitlements("phone").features == ScreenTime.promised["lockout"])
      let row = try await harness.row(of: bought.originalTransactionID)
      #expect(row.status == "cancelled")
      #expect(row.storeStatus == "revoked")
    }
  }

  @Test func `a ScreenTime downgrade takes effect at the renewal and pauses extra child devices`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      try await harness.pair(3, to: "phone")
      harness.clock.advance(days: 5)
      try await harness.happens(.changeProduct(ScreenTime.individual), to: bought.originalTransactionID)
      try await expect("phone", "active", tier: "family", in: harness)
      let end = try #require(bought.transaction.expiresDate)
      harness.clock.set(end - 1)
      try await expect("phone", "active", tier: "family", in: harness)
      harness.clock.set(end)
      try await harness.happens(.renew, to: bought.originalTransactionID)
      try await expect("phone", "active", tier: "individual", in: harness)
      #expect(
        try await harness.children(of: "phone").children == [
          "child-1 active", "child-2 paused", "child-3 paused",
        ])
    }
  }

  @Test
  func `free access of ScreenTime opens every device and suspends the trial`()
    async throws
  {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.launch("phone")
      harness.clock.advance(days: 25)
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      for device in ["phone", "stranger"] {
        #expect(try await harness.entitlements(device).bool("entitlements.isAccessGranted") == true)
      }
      harness.clock.advance(days: 10)
      _ = try await harness.desk.setFreeAccess(false, bundleID: ScreenTime.bundleID, by: ada)
      try await expect("stranger", "expired", in: harness)
      // The trial was suspended: five days are left.
      harness.clock.advance(seconds: 5 * ScreenTime.day - 1)
      try await expect("phone", "trial", in: harness)
      harness.clock.advance(seconds: 1)
      try await expect("phone", "grace", in: harness)
    }
  }

  // MARK: Support

  @Test func `support helps a charged customer without access with a grant and a validation`() async throws {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      // Neither the notification nor the device's proof arrived.
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      #expect(try await harness.desk.customer(bought.transactionID).isEmpty)
      _ = try await harness.desk.grant(
        to: "phone", bundleID: ScreenTime.bundleID, tier: "family", days: 2, by: ada, isForced: true)
      try await expect("phone", "active", tier: "family", in: harness)
      // Support validates it with the id on the customer's receipt.
      let byHand = try await harness.validate([
        "transactionID": bought.transactionID, "deviceID": "phone", "bundleID": ScreenTime.bundleID,
      ])
      #expect(byHand.status == 200)
      harness.clock.advance(days: 5)
      try await expect("phone", "active", tier: "family", in: harness)
      let story = try #require(try await harness.desk.customer("phone").customers.first)
      #expect(story.purchases.map(\.transactionID) == [bought.transactionID])
      #expect(story.grants.map(\.isOpen) == [false])
    }
  }

  @Test func `support extends a customer's ended trial once`() async throws {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.launch("phone")
      harness.clock.advance(days: 38)
      try await expect("phone", "expired", in: harness)
      _ = try await harness.desk.extendTrial(
        of: "phone", bundleID: ScreenTime.bundleID, days: 7, by: ada)
      try await expect("phone", "trial", in: harness)
      let again = try await refusal {
        _ = try await harness.desk.extendTrial(
          of: "phone", bundleID: ScreenTime.bundleID, days: 7, by: ada)
      }
      #expect(again == .alreadyDone)
      harness.clock.advance(days: 7)
      try await expect("phone", "grace", in: harness)
    }
  }

  @Test
  func `a new ScreenTime device restores without support, and support takes the purchase from the lost one`()
    async throws
  {
    try await withScreenTime { harness in
      let ada = try #require(Harness.ada)
      let bought = try await harness.device("lost-phone", buys: ScreenTime.individual)
      // The new phone restores it without support; support takes it from the lost one.
      _ = try await harness.device("new-phone", shows: bought)
      try await expect("new-phone", "active", tier: "individual", in: harness)
      try await expect("lost-phone", "active", tier: "individual", in: harness)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "new-phone", by: ada, isForced: true)
      try await expect("new-phone", "active", tier: "individual", in: harness)
      try await expect("lost-phone", "expired", in: harness)
      let refused = try await harness.validate([
        "signedTransaction": bought.signedTransaction, "deviceID": "lost-phone",
      ])
      #expect(refused.code == "belongs_to_another_customer")
      #expect(refused["entitlements"] == nil)
      #expect(
        try await harness.device("new-phone", shows: bought).string("entitlements.tier") == "individual")
    }
  }
}
