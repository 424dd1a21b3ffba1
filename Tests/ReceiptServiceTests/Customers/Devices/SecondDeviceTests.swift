import AppStore
import AppStoreSimulator
import Configuration
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Ledger
@testable import ReceiptService

/// Devices of one Apple Account share a purchase. A bare transaction id proves no possession.
@Suite struct SecondDeviceTests {
  /// The shipped configuration with this mode for ScreenTime Rewards; `nil` for none.
  private static func configuration(_ mode: ClientWrites?) throws -> String {
    let configuration = try ScreenTime.configuration()
    let shipped = #""clientWrites": "accept","#
    #expect(configuration.contains(shipped))
    return configuration.replacing(
      shipped, with: mode.map { #""clientWrites": "\#($0.rawValue)","# } ?? "")
  }

  private static func buys(_ account: String, in harness: Harness) throws -> SignedOutcome {
    try harness.store.buy(
      PurchaseRequest(bundleID: ScreenTime.bundleID, productID: ScreenTime.family, accountID: account))
  }

  private static func app(of account: String, in harness: Harness) throws -> String {
    try harness.store.appTransaction(of: ScreenTime.bundleID, accountID: account).signed
  }

  /// The number of devices that joined with a bare id.
  private static func joins(_ harness: Harness) async throws -> Double? {
    try await harness.scrape()[#"receiptd_bare_id_joins_total{app="\#(ScreenTime.bundleID)"}"#]
  }

  private static func tier(_ device: String, _ harness: Harness) async throws -> String? {
    try await harness.entitlements(device).string("entitlements.tier")
  }

  @Test(arguments: [ClientWrites.refuse, nil, .accept])
  func `the first proof takes a purchase from a device that only named its id, unless old builds may`(
    mode: ClientWrites?
  )
    async throws
  {
    try await withHarness(configuration: Self.configuration(mode)) { harness in
      let bought = try Self.buys("anna", in: harness)
      try await harness.arrives(bought)
      _ = try await harness.validate(["transactionID": bought.transactionID, "deviceID": "stranger"])
      let named = try await Self.tier("stranger", harness)
      #expect(named == "family" || mode == .refuse)
      _ = try await harness.device("phone", shows: bought)
      #expect(try await Self.tier("phone", harness) == "family")
      #expect(try await Self.tier("stranger", harness) == (mode == .accept ? "family" : nil))
      // Its id alone gives nothing back, and its own proof does.
      _ = try await harness.validate(["transactionID": bought.transactionID, "deviceID": "stranger"])
      #expect(try await Self.tier("stranger", harness) == (mode == .accept ? "family" : nil))
      _ = try await harness.device("stranger", shows: bought)
      for device in ["phone", "stranger"] { #expect(try await Self.tier(device, harness) == "family") }
    }
  }

  @Test(arguments: [ClientWrites.accept, .observe])
  func `while old builds may write, a bare id joins, and a metric counts it`(mode: ClientWrites) async throws
  {
    try await withHarness(configuration: Self.configuration(mode)) { harness in
      let bought = try Self.buys("anna", in: harness)
      _ = try await harness.device("phone", shows: bought)
      #expect(try await Self.joins(harness) == 0)
      for _ in 0..<2 {
        let joined = try await harness.validate([
          "transactionID": bought.transactionID, "deviceID": "reinstalled",
        ])
        #expect(joined.status == 200)
        #expect(joined.string("entitlements.tier") == "family")
      }
      #expect(try await Self.joins(harness) == 1)
      for device in ["phone", "reinstalled"] { #expect(try await Self.tier(device, harness) == "family") }
    }
  }

  @Test(arguments: [ClientWrites.refuse, nil])
  func `once old builds are refused, a bare id joins no purchase`(mode: ClientWrites?)
    async throws
  {
    try await withHarness(configuration: Self.configuration(mode)) { harness in
      let bought = try Self.buys("anna", in: harness)
      let bare = ["transactionID": bought.transactionID, "deviceID": "stranger"]
      let isSet = mode == .refuse
      let unowned = try await harness.validate(isSet ? bare : bare.merging(["deviceID": "phone"]) { $1 })
      // Without the key the first device that names an unowned purchase gets it, until another device proves it.
      #expect(unowned.status == (isSet ? 409 : 200))
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == (isSet ? nil : "phone"))
      #expect(try await harness.device("phone", shows: bought).string("entitlements.tier") == "family")
      let refused = try await harness.validate(bare)
      #expect(refused.status == 409)
      #expect(refused.string("detail")?.contains("alone proves no possession") == true)
      // The answer does not tell whether the purchase has an owner.
      if isSet { #expect(refused.string("detail") == unowned.string("detail")) }
      #expect(refused.code == "belongs_to_another_customer")
      #expect(refused["subscription"] == nil)
      #expect(try await Self.tier("stranger", harness) == nil)
      // Not even after its end, and not with a receipt.
      harness.clock.advance(days: 60)
      #expect(try await harness.validate(bare).status == 409)
      let receipt = LegacyReceipt(bundleID: ScreenTime.bundleID, purchases: [bought.transaction])
      let old = try await harness.validate(["receipt": receipt.base64, "deviceID": "stranger"])
      #expect(old.status == 409)
      // The device that has it goes on with the bare id.
      let again = try await harness.validate(["transactionID": bought.transactionID, "deviceID": "phone"])
      #expect(again.status == 200)
      #expect(try await Self.joins(harness) == 0)
    }
  }

  @Test(arguments: ClientWrites.allCases)
  func `an id with an app transaction of the same Apple Account joins`(mode: ClientWrites) async throws {
    try await withHarness(configuration: Self.configuration(mode)) { harness in
      let bought = try Self.buys("anna", in: harness)
      _ = try await harness.device("phone", shows: bought)
      let joined = try await harness.validate([
        "transactionID": bought.transactionID, "deviceID": "tablet",
        "signedAppTransaction": Self.app(of: "anna", in: harness),
      ])
      #expect(joined.status == 200)
      #expect(joined.string("entitlements.tier") == "family")
      #expect(try await Self.joins(harness) == 0)
      for device in ["phone", "tablet"] { #expect(try await Self.tier(device, harness) == "family") }
    }
  }

  @Test(arguments: ClientWrites.allCases)
  func `an id with an app transaction of another Apple Account gives nothing`(
    mode: ClientWrites
  ) async throws {
    try await withHarness(configuration: Self.configuration(mode)) { harness in
      let bought = try Self.buys("anna", in: harness)
      let claim = [
        "transactionID": bought.transactionID, "deviceID": "stranger",
        "signedAppTransaction": try Self.app(of: "boris", in: harness),
      ]
      // Before the purchase has an owner, and after.
      for _ in 0..<2 {
        let refused = try await harness.validate(claim)
        #expect(refused.status == 409)
        #expect(refused.code == "belongs_to_another_customer")
        #expect(try await Self.tier("stranger", harness) == nil)
        _ = try await harness.device("phone", shows: bought)
      }
      #expect(try await harness.row(of: bought.originalTransactionID).deviceID == "phone")
      #expect(try await harness.actions().isEmpty)
    }
  }

  @Test func `once old builds are refused, a user needs signed data to get a purchase`() async throws {
    for mode in [ClientWrites.accept, .observe, .refuse] {
      let configuration = TestApps.json.replacing(
        #""bundleID": "com.example.climbing","#,
        with: #""bundleID": "com.example.climbing", "clientWrites": "\#(mode.rawValue)","#)
      try await withHarness(configuration: configuration) { harness in
        let (user, stranger) = (UUID(), UUID())
        let (token, other) = (try await harness.token(for: user), try await harness.token(for: stranger))
        let bought = try harness.buy()
        let bare = ["transactionID": bought.transactionID, "bundleID": TestApps.climbing]
        let receipt = LegacyReceipt(purchases: [bought.transaction])
        let isRefused = mode == .refuse
        let named = try await harness.validate(bare, token: token)
        #expect(named.status == (isRefused ? 409 : 200))
        #expect(try await harness.row(of: bought.originalTransactionID).userID == (isRefused ? nil : user))
        // Without a user it is answered and bound to none.
        #expect(try await harness.validate(bare).status == 200)
        guard isRefused else { return }
        #expect(named.code == "belongs_to_another_customer")
        #expect(try await harness.validate(["receipt": receipt.base64], token: token).status == 409)
        let signed = ["signedTransaction": bought.signedTransaction]
        #expect(try await harness.validate(signed, token: token).status == 200)
        #expect(try await harness.validate(bare, token: token).status == 200)
        #expect(try await harness.validate(bare, token: other).string("detail") == named.string("detail"))
        // Apple's token names the user, so the id gives nothing that is not the user's.
        let ours = try harness.buy(token: user)
        let mine = ["transactionID": ours.transactionID, "bundleID": TestApps.climbing]
        #expect(try await harness.validate(mine, token: token).status == 200)
      }
    }
  }

  @Test func `a device id may have 255 bytes, as in the tables of live apps`() async throws {
    try await withHarness(configuration: Self.configuration(.accept)) { harness in
      let bought = try Self.buys("anna", in: harness)
      for device in [String(repeating: "d", count: 255), String(repeating: "é", count: 127) + "e"] {
        let answer = try await harness.validate(["transactionID": bought.transactionID, "deviceID": device])
        #expect(answer.status == 200)
        #expect(answer.string("entitlements.tier") == "family")
      }
      for device in [String(repeating: "d", count: 256), String(repeating: "é", count: 128)] {
        let answer = try await harness.validate(["transactionID": bought.transactionID, "deviceID": device])
        #expect(answer.code == "invalid_request")
      }
      #expect(try await Self.tier(String(repeating: "d", count: 255), harness) == "family")
    }
  }

  @Test func `an app transaction that does not verify changes nothing`() async throws {
    try await withScreenTime { harness in
      let bought = try Self.buys("anna", in: harness)
      let claim = ["transactionID": bought.transactionID, "deviceID": "phone"]
      let forged = try await harness.validate(claim.merging(["signedAppTransaction": "a.b.c"]) { $1 })
      #expect(forged.status == 422)
      #expect(forged.code == "invalid_signature")
      let other = try harness.store.appTransaction(of: ScreenTime.heatlab, accountID: "anna").signed
      #expect(
        try await harness.validate(claim.merging(["signedAppTransaction": other]) { $1 }).code == "wrong_app")
      #expect(try await harness.count("subscriptions") == 0)
    }
  }

  @Test func `an app transaction without an account proves nothing`() async throws {
    try await withHarness(configuration: Self.configuration(.refuse)) { harness in
      let bought = try Self.buys("anna", in: harness)
      _ = try await harness.device("phone", shows: bought)
      var old = try harness.store.appTransaction(of: ScreenTime.bundleID, accountID: "anna").payload
      old.appTransactionId = nil
      let signed = try harness.store.identity.authority.signer.sign(old)
      let refused = try await harness.validate([
        "transactionID": bought.transactionID, "deviceID": "tablet", "signedAppTransaction": signed,
      ])
      #expect(refused.status == 409)
    }
  }

  @Test func `a second device makes its own secret, and an app transaction proves its account`() async throws
  {
    try await withHarness(configuration: Self.configuration(.refuse)) { harness in
      let (phone, tablet) = (ScreenTime.secret(1), ScreenTime.secret(2))
      let bought = try Self.buys("anna", in: harness)
      let signed = ["signedTransaction": bought.signedTransaction, "deviceID": "phone"]
      #expect(try await harness.validate(signed, secret: phone).status == 200)
      let named = [
        "transactionID": bought.transactionID, "deviceID": "tablet",
        "signedAppTransaction": try Self.app(of: "anna", in: harness),
      ]
      #expect(
        try await harness.validate(named, secret: tablet).string("entitlements.entitlementToken") != nil)
      #expect(try await harness.children(of: "tablet", secret: tablet).status == 200)
      #expect(try await harness.children(of: "tablet", secret: phone).status == 401)
      #expect(try await harness.children(of: "phone", secret: phone).status == 200)
      // A lost secret is replaced by the same proof.
      let lost = try await harness.validate(named, secret: ScreenTime.secret(3))
      #expect(lost.string("entitlements.entitlementToken") != nil)
      #expect(try await harness.children(of: "tablet", secret: tablet).status == 401)
    }
  }

  @Test func `with one device for each purchase, a reinstall replaces the former device`() async throws {
    let one = try Self.configuration(.refuse).replacing(
      #""devicesPerPurchase": 10,"#, with: #""devicesPerPurchase": 1,"#)
    try await withHarness(configuration: one) { harness in
      let bought = try Self.buys("anna", in: harness)
      for device in ["phone", "reinstalled"] {
        #expect(try await harness.device(device, shows: bought).string("entitlements.tier") == "family")
      }
      #expect(try await Self.tier("phone", harness) == nil)
      let bare = try await harness.validate(["transactionID": bought.transactionID, "deviceID": "stranger"])
      #expect(bare.status == 409)
      #expect(try await Self.tier("reinstalled", harness) == "family")
    }
  }
}
