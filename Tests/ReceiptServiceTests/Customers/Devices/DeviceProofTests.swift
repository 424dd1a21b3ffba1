import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Testing

@testable import ReceiptService
@testable import Support

/// A signed proof of a device's Apple Account sets or replaces the device's secret.
@Suite struct DeviceProofTests {
  private let phone = ScreenTime.secret(1)
  private let stranger = ScreenTime.secret(2)
  private let reinstalled = ScreenTime.secret(3)

  @Test func `a reinstalled app sets a new secret with an app transaction of the device's account`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "a", secret: phone)
      #expect(try await harness.launch("phone", account: "b", secret: stranger).status == 401)
      #expect(try await harness.children(of: "phone", secret: phone).status == 200)

      #expect(try await harness.launch("phone", account: "a", secret: reinstalled).status == 200)
      #expect(try await harness.children(of: "phone", secret: reinstalled).status == 200)
      #expect(try await harness.children(of: "phone", secret: phone).status == 401)
      let actions = try await harness.actions()
      #expect(actions.map(\.action) == ["replace-device-secret"])
      #expect(actions.map(\.to) == ["phone"])
      #expect(actions.map(\.by) == ["policy"])
    }
  }

  @Test func `a device that joined its account's trial sets a new secret by a proof of that account`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.launch("tablet", account: "a")
      _ = try await harness.launch("phone", account: "a", secret: phone)
      #expect(try await harness.launch("phone", account: "a", secret: reinstalled).status == 200)
      #expect(try await harness.children(of: "phone", secret: reinstalled).status == 200)
      #expect(try await harness.children(of: "phone", secret: phone).status == 401)
      #expect(try await harness.children(of: "tablet").status == 200)
    }
  }

  @Test func `an attacker's secret from before the first proof does not lock out an old build`()
    async throws
  {
    try await withScreenTime { harness in
      #expect(try await harness.children(of: "phone", secret: stranger).status == 200)
      #expect(try await harness.children(of: "phone").status == 401)
      // The old build sends no secret, but its app transaction proves an account.
      #expect(try await harness.launch("phone", account: "a").status == 201)
      #expect(try await harness.children(of: "phone").status == 200)
      let actions = try await harness.actions()
      #expect(actions.map(\.action) == ["forget-device-secret"])
      // Now the device has a record: a secret needs a proof of its account.
      #expect(try await harness.launch("phone", account: "b", secret: stranger).status == 200)
      #expect(try await harness.children(of: "phone").status == 200)
    }
  }

  @Test func `a purchase that a device proves deletes a secret that an attacker set before`() async throws {
    try await withScreenTime { harness in
      #expect(try await harness.children(of: "phone", secret: stranger).status == 200)
      let mine = ["signedTransaction": try harness.purchase(by: "a"), "deviceID": "phone"]
      #expect(try await harness.validate(mine).hasToken)
      #expect(try await harness.children(of: "phone").status == 200)
    }
  }

  @Test func `a signed transaction replaces secrets of its own account's devices only`() async throws {
    try await withScreenTime { harness in
      let bought = try harness.purchase(by: "a")
      let foreign = try harness.purchase(by: "b")
      let mine = ["signedTransaction": bought, "deviceID": "phone"]
      let theirs = ["signedTransaction": foreign, "deviceID": "phone"]
      #expect(try await harness.validate(mine, secret: phone).hasToken)
      #expect(try await !harness.validate(theirs, secret: stranger).hasToken)
      #expect(try await harness.children(of: "phone", secret: phone).status == 200)

      #expect(try await harness.validate(mine, secret: reinstalled).hasToken)
      #expect(try await harness.children(of: "phone", secret: phone).status == 401)
      #expect(try await harness.children(of: "phone", secret: reinstalled).status == 200)
      // An app transaction of the purchasing account is a proof too.
      #expect(try await harness.launch("phone", account: "a", secret: phone).status == 201)
      #expect(try await harness.children(of: "phone", secret: phone).status == 200)
    }
  }

  @Test func `a transaction id without a signature replaces no device secret`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      let signed = ["signedTransaction": bought.signedTransaction, "deviceID": "phone"]
      #expect(try await harness.validate(signed, secret: phone).hasToken)
      let bare = [
        "transactionID": bought.transactionID, "deviceID": "phone", "bundleID": ScreenTime.bundleID,
      ]
      let answer = try await harness.validate(bare, secret: stranger)
      #expect(answer.status == 200)
      #expect(!answer.hasToken)
      #expect(try await harness.children(of: "phone", secret: phone).status == 200)
      #expect(try await harness.validate(bare, secret: phone).hasToken)
    }
  }

  @Test(arguments: [nil, ScreenTime.secret(2)])
  func `a purchase sent without the device's secret is stored but not bound to the device`(
    _ secret: String?
  ) async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "a", secret: phone)
      let bought = try harness.store.buy(
        PurchaseRequest(bundleID: ScreenTime.bundleID, productID: ScreenTime.family, accountID: "b"),
        in: .production)
      let members = ["signedTransaction": bought.signedTransaction, "deviceID": "phone"]
      let answer = try await harness.validate(members, secret: secret)
      #expect(answer.status == 200)
      #expect(answer.string("subscription.status") == "active")
      #expect(answer.string("entitlements.tier") == "family")
      #expect(answer.isNull("entitlements.entitlementToken"))
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == nil)
      #expect(
        try await harness.token(of: "phone", secret: phone).string("entitlements.status") == "trial")

      // With the secret it is bound to the device.
      #expect(try await harness.validate(members, secret: phone).hasToken)
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "phone")
    }
  }

  @Test func `a response to a request without the device's secret shows no other records of the device`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "a", secret: phone)
      let family = ["signedTransaction": try harness.purchase(by: "a", of: ScreenTime.family)]
      let individual = try harness.purchase(by: "b", of: ScreenTime.individual)
      let bound = family.merging(["deviceID": "phone"]) { $1 }
      #expect(try await harness.validate(bound, secret: phone).string("entitlements.tier") == "family")
      let answer = try await harness.validate(["signedTransaction": individual, "deviceID": "phone"])
      #expect(answer.string("entitlements.tier") == "individual")
    }
  }

  @Test func `the first secret of a device that has a record needs a proof of its account`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "a")
      // Handled like a request of an old build; the secret is not stored.
      #expect(try await harness.children(of: "phone", secret: stranger).status == 200)
      #expect(try await harness.launch("phone", account: "b", secret: stranger).status == 200)
      #expect(try await harness.count("device_secrets") == 0)
      #expect(try await harness.children(of: "phone").status == 200)

      #expect(try await harness.launch("phone", account: "a", secret: phone).status == 200)
      #expect(try await harness.children(of: "phone", secret: phone).status == 200)
      #expect(try await harness.children(of: "phone").status == 401)
      // Nothing was replaced.
      #expect(try await harness.actions().isEmpty)
    }
  }

  @Test func `a purchase that an attacker bound to a device does not prove the device's first secret`()
    async throws
  {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "a")
      let foreign = ["signedTransaction": try harness.purchase(by: "b"), "deviceID": "phone"]
      #expect(try await harness.validate(foreign, secret: stranger).status == 200)
      #expect(try await harness.validate(foreign, secret: stranger).status == 200)
      #expect(try await harness.launch("phone", account: "b", secret: stranger).status == 200)
      #expect(try await harness.count("device_secrets") == 0)
      #expect(try await harness.children(of: "phone").status == 200)
    }
  }

  @Test func `the first proof replaces an attacker's secret on a device without a record`()
    async throws
  {
    try await withScreenTime { harness in
      let first = try await harness.children(of: "phone", secret: stranger)
      #expect(first.status == 200)
      #expect(try await harness.children(of: "phone", secret: phone).status == 401)
      #expect(try await harness.launch("phone", account: "a", secret: phone).status == 201)
      #expect(try await harness.children(of: "phone", secret: phone).status == 200)
      #expect(try await harness.launch("phone", account: "b", secret: stranger).status == 401)
    }
  }

  @Test func `a purchase that support transferred does not prove the secret of its new device`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try harness.store.buy(
        PurchaseRequest(bundleID: ScreenTime.bundleID, productID: ScreenTime.family, accountID: "a"),
        in: .production)
      let old = ["signedTransaction": bought.signedTransaction, "deviceID": "old"]
      #expect(try await harness.validate(old).hasToken)
      _ = try await harness.launch("phone", account: "b", secret: phone)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "phone",
        by: SupportAuthor(by: .operatorNamed("ada"), reason: "ticket 812"),
        isForced: true)
      let answer = try await harness.validate(
        ["signedTransaction": bought.signedTransaction, "deviceID": "phone"], secret: stranger)
      #expect(answer.status == 200)
      #expect(!answer.hasToken)
      #expect(try await harness.children(of: "phone", secret: phone).status == 200)
    }
  }
}

extension Answer {
  var hasToken: Bool { string("entitlements.entitlementToken") != nil }
}

extension Harness {
  /// A purchase of an Apple Account, signed.
  fileprivate func purchase(
    by account: String, of productID: String = ScreenTime.individual
  ) throws -> String {
    try store.buy(
      PurchaseRequest(bundleID: ScreenTime.bundleID, productID: productID, accountID: account),
      in: .production
    ).signedTransaction
  }
}
