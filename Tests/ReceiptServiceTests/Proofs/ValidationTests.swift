import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import Postgres
import Testing

@testable import ReceiptService

@Suite struct ValidationTests {
  @Test func `validate stores a signed purchase and responds with its entitlements`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let bought = try harness.buy()
      let answer = try await harness.validate(
        [
          "signedTransaction": bought.signedTransaction,
          "signedRenewalInfo": try #require(bought.signedRenewalInfo),
        ],
        token: try await harness.token(for: user))

      #expect(answer.status == 200)
      #expect(answer.bool("success") == true)
      #expect(answer.string("subscription.status") == "active")
      #expect(answer.string("subscription.storeStatus") == "active")
      #expect(answer.string("subscription.tier") == "premium")
      #expect(answer.string("subscription.productID") == TestApps.monthly)
      #expect(answer.string("subscription.originalTransactionID") == bought.originalTransactionID)
      #expect(answer.string("subscription.transactionID") == bought.transactionID)
      #expect(answer.string("subscription.environment") == "Production")
      #expect(answer.string("subscription.ownership") == "PURCHASED")
      #expect(answer.date("subscription.expiryDate") == bought.transaction.expiresDate)
      #expect(answer.bool("subscription.autoRenewEnabled") == true)
      #expect(answer.string("subscription.renewsAs") == TestApps.monthly)
      #expect(answer.isNull("subscription.gracePeriodExpiryDate"))
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(answer.bool("entitlements.features.insights") == true)
      #expect(answer.isNull("entitlements.features.history"))
      #expect(answer.date("entitlements.validUntil") == bought.transaction.expiresDate)
      #expect(answer.date("entitlements.offlineGraceUntil") == harness.clock.now + 7 * 86_400)
      #expect(answer.date("serverTime") == harness.clock.now)

      let row = try await harness.row(of: bought.originalTransactionID)
      #expect(row.status == "active")
      #expect(row.userID == user)
      #expect(row.tier == "premium")
      #expect(row.expiry == bought.transaction.expiresDate)
    }
  }

  @Test func `validate without a token stores the purchase without an owner`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      let answer = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(answer.status == 200)
      #expect(answer.bool("entitlements.isAccessGranted") == true)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == nil)
    }
  }

  @Test func `validate binds a device's purchase to the device`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let answer = try await harness.validate([
        "signedTransaction": bought.signedTransaction, "deviceID": "phone-1",
      ])
      #expect(answer.status == 200)
      #expect(answer.string("entitlements.tier") == "individual")
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "phone-1")
    }
  }

  @Test func `a bare transaction id is looked up, in production first and then in the sandbox`() async throws
  {
    try await withHarness { harness in
      let bought = try harness.buy()
      let answer = try await harness.validate([
        "transactionID": bought.transactionID, "bundleID": TestApps.climbing,
      ])
      #expect(answer.status == 200)
      #expect(answer.string("subscription.originalTransactionID") == bought.originalTransactionID)

      let tested = try harness.buy(in: .sandbox)
      let sandbox = try await harness.validate([
        "transactionID": tested.transactionID, "bundleID": TestApps.climbing,
      ])
      #expect(sandbox.status == 200)
      #expect(sandbox.string("subscription.environment") == "Sandbox")
      #expect(sandbox.bool("entitlements.isAccessGranted") == false)
    }
  }

  @Test func `an app can have its own App Store key`() async throws {
    try await withHarness(configuration: TestApps.configuration(storeKey: true)) { harness in
      let bought = try harness.buy()
      let answer = try await harness.validate([
        "transactionID": bought.transactionID, "bundleID": TestApps.climbing,
      ])
      // The simulated store rejects this key, which shows that it was used.
      #expect(answer.status == 503)
      #expect(answer.code == "store_unavailable")
      let other = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      let found = try await harness.validate([
        "transactionID": other.transactionID, "bundleID": TestApps.family,
      ])
      #expect(found.status == 200)
    }
  }

  @Test func `validate with a bare id returns the current state in the App Store`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      harness.clock.set(try #require(bought.transaction.expiresDate))
      _ = try harness.store.perform(.failToRenew(grace: true), on: bought.originalTransactionID)
      harness.clock.advance(seconds: 60)
      let answer = try await harness.validate([
        "transactionID": bought.transactionID, "bundleID": TestApps.climbing,
      ])
      #expect(answer.string("subscription.storeStatus") == "billingGrace")
      #expect(answer.string("subscription.status") == "grace")
      #expect(answer.bool("entitlements.isAccessGranted") == true)
    }
  }

  /// The first signed proof takes the purchase from a customer who only named its id, and a token cannot be taken back.
  @Test func `who only named a purchase has no token until the end of its paid time`() async throws {
    let paidTime = TestApps.json.replacing(
      #""name": "Climbing","#, with: #""name": "Climbing", "offline": "paidTime","#)
    try await withHarness(configuration: paidTime) { harness in
      let bought = try harness.buy(TestApps.lifetime)
      let user = UUID()
      let token = try await harness.token(for: user)
      let named = try await harness.validate(
        ["transactionID": bought.transactionID, "bundleID": TestApps.climbing], token: token)
      #expect(named.bool("entitlements.isAccessGranted") == true)
      let grace = harness.clock.now + 7 * 86_400
      #expect(named.date("entitlements.offlineGraceUntil") == grace)
      #expect(try await harness.premium(user).date("entitlements.offlineGraceUntil") == grace)
      let proven = try await harness.validate(["signedTransaction": bought.signedTransaction], token: token)
      for answer in [proven, try await harness.premium(user)] {
        #expect(answer.string("entitlements.offlineGraceUntil") == "9999-12-31T23:59:59Z")
      }
    }
  }

  @Test func `of devices that share a purchase those that only named it have no token until its end`()
    async throws
  {
    let paidTime = try ScreenTime.configuration().replacing(
      #""clientWrites": "accept","#, with: #""clientWrites": "accept", "offline": "paidTime","#)
    try await withHarness(configuration: paidTime) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let (grace, end) = (harness.clock.now + 7 * 86_400, try #require(bought.transaction.expiresDate))
      func name(_ device: String) async throws -> Answer {
        try await harness.validate([
          "transactionID": bought.transactionID, "deviceID": device, "bundleID": ScreenTime.bundleID,
        ])
      }
      #expect(try await name("first").date("entitlements.offlineGraceUntil") == grace)
      #expect(try await harness.entitlements("first").date("entitlements.offlineGraceUntil") == grace)
      let proven = try await harness.device("owner", shows: bought)
      #expect(proven.date("entitlements.offlineGraceUntil") == end)
      #expect(try await name("other").date("entitlements.offlineGraceUntil") == grace)
      for device in ["first", "other"] {
        #expect(try await harness.entitlements(device).date("entitlements.offlineGraceUntil") == grace)
      }
      #expect(try await harness.entitlements("owner").date("entitlements.offlineGraceUntil") == end)
      // A proof of its own.
      #expect(
        try await harness.device("other", shows: bought).date("entitlements.offlineGraceUntil") == end)
      #expect(try await harness.entitlements("other").date("entitlements.offlineGraceUntil") == end)
    }
  }

  @Test func `validate with an id that neither environment knows gets transaction_not_found`() async throws {
    try await withHarness { harness in
      let answer = try await harness.validate([
        "transactionID": "2000000999999999", "bundleID": TestApps.climbing,
      ])
      #expect(answer.status == 404)
      #expect(answer.code == "transaction_not_found")
    }
  }

  @Test(arguments: [
    [:], ["transactionID": "12a", "bundleID": TestApps.climbing], ["transactionID": "", "bundleID": "x"],
    ["transactionID": "1", "signedTransaction": "a.b.c"], ["transactionID": "1"],
  ])
  func `validate refuses a body with no proof, two proofs, or a malformed proof`(body: [String: String])
    async throws
  {
    try await withHarness { harness in
      let answer = try await harness.validate(body)
      #expect(answer.status == 400)
      #expect(answer.code == "invalid_request")
    }
  }

  @Test func `validate treats a product's alias as the same product`() async throws {
    try await withHarness { harness in
      let info = try harness.transaction { $0.productId = "climbing.monthly" }
      let answer = try await harness.validate(["signedTransaction": try harness.sign(info)])
      #expect(answer.status == 200)
      #expect(answer.string("subscription.productID") == TestApps.monthly)
      #expect(answer.string("subscription.tier") == "premium")
    }
  }

  @Test func `validate stores a purchase of an unknown product and responds with an error`() async throws {
    try await withHarness { harness in
      let info = try harness.transaction { $0.productId = "com.example.climbing.unheard" }
      let answer = try await harness.validate(["signedTransaction": try harness.sign(info)])
      #expect(answer.status == 422)
      #expect(answer.code == "unknown_product")
      #expect(try await harness.row(of: info.originalTransactionId).tier == nil)
    }
  }

  @Test func `validate with an unverifiable proof changes nothing`() async throws {
    try await withHarness { harness in
      let stranger = try SigningAuthority()
      let info = try harness.transaction()
      let answer = try await harness.validate(["signedTransaction": try stranger.signer.sign(info)])
      #expect(answer.status == 422)
      #expect(answer.code == "invalid_signature")
      let count = try await harness.pool.query("SELECT 1 FROM transactions").count
      #expect(count == 0)
    }
  }

  @Test
  func `proofs of another app, another environment or an expired certificate have their own error codes`()
    async throws
  {
    try await withHarness { harness in
      let elsewhere = try harness.transaction { $0.bundleId = "com.example.unknown" }
      #expect(try await harness.validate(["signedTransaction": harness.sign(elsewhere)]).code == "wrong_app")

      let other = try harness.transaction()
      let mismatched = try await harness.validate([
        "signedTransaction": harness.sign(other), "bundleID": TestApps.family,
      ])
      #expect(mismatched.code == "wrong_app")

      let local = try harness.transaction { $0.environment = .xcode }
      #expect(
        try await harness.validate(["signedTransaction": harness.sign(local)]).code == "wrong_environment")

      let long = harness.clock.now - 400 * 86_400
      let expired = try harness.store.identity.authority.makeSigner(validity: long..<long + 86_400)
      let answer = try await harness.validate(["signedTransaction": try expired.sign(other)])
      #expect(answer.status == 422)
      #expect(answer.code == "certificate_expired")
    }
  }

  @Test func `a transaction from before a refund does not restore access`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy()
      harness.clock.advance(days: 1)
      let refund = try harness.store.perform(
        .refund(transactionID: nil, percentage: 100, reason: .refundedForOtherReason),
        on: bought.originalTransactionID)
      _ = try await harness.notify(refund.notification.signedPayload)
      let answer = try await harness.validate(["signedTransaction": bought.signedTransaction])
      #expect(answer.status == 200)
      #expect(answer.string("subscription.status") == "cancelled")
      #expect(answer.string("subscription.storeStatus") == "revoked")
      #expect(answer.bool("entitlements.isAccessGranted") == false)
    }
  }

  @Test func `sandbox purchases grant access only if the configuration allows it`() async throws {
    let tester = UUID()
    let grants = "[\"\(tester.uuidString)\"]"
    try await withHarness(configuration: TestApps.configuration(sandboxGrants: grants)) { harness in
      let bought = try harness.buy(in: .sandbox)
      let body = ["signedTransaction": bought.signedTransaction]
      let answer = try await harness.validate(body, token: harness.token(for: tester))
      #expect(answer.bool("entitlements.isAccessGranted") == true)

      let another = try harness.buy(in: .sandbox)
      let refused = try await harness.validate(
        ["signedTransaction": another.signedTransaction], token: harness.token(for: UUID()))
      #expect(refused.bool("entitlements.isAccessGranted") == false)
    }
  }

  @Test func `a purchase that belongs to another user stays with its owner`() async throws {
    try await withHarness { harness in
      let (anna, boris) = (UUID(), UUID())
      let body = ["signedTransaction": try harness.buy().signedTransaction]
      let first = try await harness.validate(body, token: harness.token(for: anna))
      #expect(first.status == 200)
      let second = try await harness.validate(body, token: harness.token(for: boris))
      #expect(second.status == 409)
      #expect(second.code == "belongs_to_another_customer")
      #expect(second["subscription"] == nil)
      let id = try await harness.pool.query("SELECT user_id FROM subscriptions")[0].decode(
        "user_id", as: UUID.self)
      #expect(id == anna)
    }
  }

  @Test func `the policy transfer moves a purchase and changes both profiles`() async throws {
    try await withHarness(configuration: TestApps.configuration(transferPolicy: "transfer")) { harness in
      let (anna, boris) = (UUID(), UUID())
      let body = ["signedTransaction": try harness.buy().signedTransaction]
      _ = try await harness.validate(body, token: harness.token(for: anna))
      let moved = try await harness.validate(body, token: harness.token(for: boris))
      #expect(moved.status == 200)
      #expect(try await harness.profileRow(of: anna)?.product == nil)
      #expect(try await harness.profileRow(of: boris)?.product == TestApps.monthly)
      let action = try await harness.pool.query(
        "SELECT from_customer, to_customer FROM support_actions WHERE action = 'transfer'")
      #expect(action.count == 1)
      #expect(try action[0].decode("from_customer", as: String.self) == anna.uuidString.lowercased())
      #expect(try action[0].decode("to_customer", as: String.self) == boris.uuidString.lowercased())
    }
  }

  @Test func `a user who buys an ended purchase again with a token gets it back from the user who took it`()
    async throws
  {
    try await withHarness(configuration: TestApps.configuration(transferPolicy: "transferWhenInactive")) {
      harness in
      let (anna, boris) = (UUID(), UUID())
      func buys(_ user: UUID) throws -> SignedOutcome {
        try harness.store.buy(
          PurchaseRequest(
            bundleID: TestApps.climbing, productID: TestApps.monthly, accountID: "ann", appAccountToken: user),
          in: .production)
      }
      func proves(_ bought: SignedOutcome, _ user: UUID) async throws -> Int {
        try await harness.validate(
          ["signedTransaction": bought.signedTransaction], token: harness.token(for: user)
        ).status
      }
      func ends(_ bought: SignedOutcome) throws {
        _ = try harness.store.perform(.setAutoRenew(false), on: bought.originalTransactionID)
        harness.clock.advance(days: 40)
        _ = try harness.store.perform(.expire(nil), on: bought.originalTransactionID)
      }
      let first = try buys(anna)
      #expect(try await proves(first, anna) == 200)
      try ends(first)
      #expect(try await proves(first, boris) == 200)
      #expect(try await harness.row(of: first.originalTransactionID).userID == boris)

      let second = try buys(anna)
      #expect(try await harness.notify(second.notification.signedPayload).status == 200)
      #expect(try await harness.row(of: first.originalTransactionID).userID == anna)
      #expect(try await proves(second, anna) == 200)
      #expect(try await proves(second, boris) == 409)
      // An earlier period that is proven again decides nothing.
      #expect(try await proves(first, boris) == 409)
      #expect(try await harness.row(of: first.originalTransactionID).userID == anna)

      try ends(second)
      #expect(try await proves(second, boris) == 200)
      #expect(try await proves(buys(boris), boris) == 200)
      #expect(try await harness.row(of: first.originalTransactionID).userID == boris)
    }
  }

  @Test func `a renewal leaves a purchase with the user to whom the policy moved it`() async throws {
    try await withHarness(configuration: TestApps.configuration(transferPolicy: "transfer")) { harness in
      let (anna, boris) = (UUID(), UUID())
      let bought = try harness.buy(token: anna)
      let id = bought.originalTransactionID
      for user in [anna, boris] {
        let answer = try await harness.validate(
          ["signedTransaction": bought.signedTransaction], token: harness.token(for: user))
        #expect(answer.status == 200)
        #expect(try await harness.row(of: id).userID == user)
      }
      for _ in 1...3 {
        harness.clock.set(try #require(try await harness.row(of: id).expiry))
        try await harness.happens(.renew, to: id)
        #expect(try await harness.row(of: id).userID == boris)
        #expect(try await harness.isPremium(boris))
      }
    }
  }

  @Test(arguments: ["transfer", "transferWhenInactive"])
  func `a bare id moves no purchase of a customer who proved it, whatever the policy`(policy: String)
    async throws
  {
    try await withHarness(configuration: TestApps.configuration(transferPolicy: policy)) { harness in
      let (anna, boris) = (UUID(), UUID())
      let bought = try harness.buy()
      _ = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: harness.token(for: anna))
      let named = try harness.buy(token: anna)
      if policy == "transferWhenInactive" { harness.clock.advance(days: 400) }
      for purchase in [bought, named] {
        let bare = ["transactionID": purchase.transactionID, "bundleID": TestApps.climbing]
        let answer = try await harness.validate(bare, token: harness.token(for: boris))
        #expect(answer.status == 409)
        #expect(try await harness.row(of: purchase.originalTransactionID).userID == anna)
      }
      #expect(try await harness.count("support_actions") == 0)
    }
  }

  @Test func `a token that comes with a refused proof moves the purchase, and support sees the move`()
    async throws
  {
    try await withHarness { harness in
      let (anna, boris) = (UUID(), UUID())
      let bought = try harness.buy(token: anna)
      _ = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: harness.token(for: anna))
      harness.clock.advance(days: 1)
      let token = try await harness.token(for: anna)
      var changed = bought.transaction
      changed.appAccountToken = boris
      changed.signedDate = harness.clock.now
      let refused = try await harness.validate(["signedTransaction": harness.sign(changed)], token: token)
      #expect(refused.status == 409)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == boris)
      let action = try #require(try await harness.actions().first)
      #expect(action.to == boris.uuidString.lowercased())
      #expect(action.by == "app-store")
    }
  }
}
