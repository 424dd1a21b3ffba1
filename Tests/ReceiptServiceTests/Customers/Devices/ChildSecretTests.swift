import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// Whose a child's device is, where nothing but its pairing tells.
@Suite struct ChildSecretTests {
  private let first = ScreenTime.secret(1)
  private let second = ScreenTime.secret(2)

  /// A child joins a parent with a code, a secret and its app transaction.
  private static func join(
    _ child: String, of account: String, to parent: String, secret: String, _ harness: Harness
  ) async throws -> Answer {
    let code = try await harness.code(of: parent).string("code") ?? ""
    let app = try harness.store.appTransaction(of: ScreenTime.bundleID, accountID: account, in: .production)
    return try await harness.send(
      .put, "/api/v1/devices/\(child)/parent?bundleID=\(ScreenTime.bundleID)",
      json: #"{"pairingCode": "\#(code)", "signedAppTransaction": "\#(app.signed)"}"#, secret: secret)
  }

  @Test func `a stranger's Apple Account replaces no secret of a child that joined with its own`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await Self.join("tablet", of: "ann", to: "phone", secret: first, harness).status == 201)
      for secret in [second, nil] {
        let refused = try await harness.launch("tablet", account: "stranger", secret: secret)
        #expect(refused.status == 401 && refused.code == "unauthenticated")
      }
      #expect(try await harness.parent(of: "tablet", secret: second).status == 401)
      let parent = try await harness.parent(of: "tablet", secret: first)
      #expect(parent.status == 200 && parent.string("pairing.state") == "active")
      #expect(try await harness.children(of: "phone").children == ["tablet active"])
    }
  }

  @Test func `a child that lost its secret gets a new one by its Apple Account, and stays paired`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await Self.join("tablet", of: "ann", to: "phone", secret: first, harness).status == 201)
      let launched = try await harness.launch("tablet", account: "ann", secret: second)
      #expect(launched.status == 409 && launched.code == "paired_device")
      #expect(try await harness.parent(of: "tablet", secret: second).string("pairing.state") == "active")
      #expect(try await harness.parent(of: "tablet", secret: first).status == 401)
      #expect(try await harness.children(of: "phone").children == ["tablet active"])
    }
  }

  @Test
  func
    `no purchase replaces the secret of a child that joined with an account, and support's reset frees it`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await Self.join("tablet", of: "ann", to: "phone", secret: first, harness).status == 201)
      let free = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID, in: .sandbox)
      let over = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      harness.clock.advance(days: 90)
      let new = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for shown in [free, over, new] {
        for secret in [second, nil] {
          let refused = try await harness.validate(
            ["signedTransaction": shown.signedTransaction, "deviceID": "tablet"], secret: secret)
          #expect(refused["entitlements.entitlementToken"] as? String == nil)
          #expect(try await harness.parent(of: "tablet", secret: second).status == 401)
        }
      }
      #expect(try await harness.parent(of: "tablet", secret: first).string("pairing.role") == "child")
      _ = try await ResetDeviceSecretRequest(deviceID: "tablet", bundleID: ScreenTime.bundleID).perform(
        at: harness.service.support, by: try #require(Harness.ada))
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      let answer = try await harness.device("tablet", shows: bought, secret: second)
      #expect(answer.string("entitlements.tier") == "individual")
      #expect(answer["entitlements.entitlementToken"] as? String != nil)
      #expect(try await harness.children(of: "phone").children == [])
    }
  }

  @Test func `a child that the parent removed still gives its secret to its own account alone`() async throws
  {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await Self.join("tablet", of: "ann", to: "phone", secret: first, harness).status == 201)
      #expect(try await harness.unpair("tablet", from: "phone").status == 200)
      #expect(try await harness.launch("tablet", account: "stranger", secret: second).status == 401)
      #expect(try await harness.launch("tablet", account: "ann", secret: second).status == 201)
    }
  }

  /// What ends the pairing of a child.
  enum End: CaseIterable {
    case parentRemovesIt
    case parentIsErased
    case freeAccessEnded
  }

  @Test(arguments: End.allCases)
  func `a child keeps its account for 30 days after its pairing ended, however long ago it joined`(end: End)
    async throws
  {
    try await withHarness(configuration: ScreenTime.configuration(), role: "receiptd_app") { harness in
      let author = try #require(Harness.ada)
      if end == .freeAccessEnded {
        _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: author)
      } else {
        try await harness.device("phone", buys: ScreenTime.family)
      }
      #expect(try await Self.join("tablet", of: "ann", to: "phone", secret: first, harness).status == 201)
      switch end {
      case .parentRemovesIt:
        harness.clock.advance(days: 40)
        #expect(try await harness.unpair("tablet", from: "phone").status == 200)
      case .parentIsErased:
        harness.clock.advance(days: 40)
        let report = try await harness.desk.eraseCustomer(
          "phone", bundleID: ScreenTime.bundleID, by: author, isForced: true)
        #expect(report.erased.first?.rows["devices"] == 1)
      case .freeAccessEnded:
        _ = try await harness.desk.setFreeAccess(false, bundleID: ScreenTime.bundleID, by: author)
        harness.clock.advance(days: 40)
        try await harness.service.retentionJob.run()
      }
      #expect(try await harness.count("devices") == 0)
      harness.clock.advance(days: 29)
      try await harness.service.retentionJob.run()
      #expect(try await harness.launch("tablet", account: "stranger", secret: second).status == 401)
      harness.clock.advance(days: 2)
      try await harness.service.retentionJob.run()
      #expect(try await harness.count("device_secrets") == 0)
    }
  }

  @Test func `a join replaces no secret of a device with another account or with none`() async throws {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      try await harness.device("stranger", buys: ScreenTime.family)
      _ = try await harness.children(of: "tablet", secret: first)
      #expect(try await harness.pair("tablet", to: "phone").status == 201)
      let refused = try await Self.join("tablet", of: "other", to: "stranger", secret: second, harness)
      #expect(refused.status == 401)
      #expect(try await harness.parent(of: "tablet", secret: first).status == 200)
    }
  }

  @Test func `support's reset ends the pairing of a device without a secret, too`() async throws {
    try await withScreenTime { harness in
      try await harness.device("stranger", buys: ScreenTime.family)
      #expect(
        try await Self.join("victim", of: "other", to: "stranger", secret: first, harness).status == 201)
      _ = try await harness.pool.query("DELETE FROM device_secrets")
      let reset = ResetDeviceSecretRequest(deviceID: "victim", bundleID: ScreenTime.bundleID)
      let ada = try #require(Harness.ada)
      #expect(try await reset.perform(at: harness.service.support, by: ada).isChanged)
      #expect(try await !reset.perform(at: harness.service.support, by: ada).isChanged)
      #expect(try await harness.launch("victim", account: "victim", secret: second).status == 201)
    }
  }

  @Test func `a child to whom support granted a tier keeps its secret beside a stranger's purchase`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await Self.join("tablet", of: "ann", to: "phone", secret: first, harness).status == 201)
      _ = try await harness.desk.grant(
        to: "tablet", bundleID: ScreenTime.bundleID, tier: "family", days: 9, by: try #require(Harness.ada),
        isForced: true)
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      let answer = try await harness.device("tablet", shows: bought, secret: second)
      #expect(answer["entitlements.entitlementToken"] as? String == nil)
      #expect(try await harness.parent(of: "tablet", secret: first).string("pairing.state") == "active")
    }
  }

  @Test func `after a reset by support a child joins again with another account`() async throws {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await Self.join("tablet", of: "ann", to: "phone", secret: first, harness).status == 201)
      #expect(try await Self.join("tablet", of: "ben", to: "phone", secret: second, harness).status == 401)
      let ada = try #require(Harness.ada)
      _ = try await ResetDeviceSecretRequest(deviceID: "tablet", bundleID: ScreenTime.bundleID).perform(
        at: harness.service.support, by: ada)
      // The former secret may have been a stranger's, who joined the device.
      #expect(try await harness.children(of: "phone").children == [])
      #expect(try await Self.join("tablet", of: "ben", to: "phone", secret: second, harness).status == 201)
      #expect(try await harness.launch("tablet", account: "ann", secret: first).status == 401)
      #expect(try await harness.parent(of: "tablet", secret: second).string("pairing.state") == "active")
    }
  }

  /// The stranger shows the customer's signed transaction and so replaces the phone's secret. Then the stranger joins the phone
  /// to another parent, with the app transaction of another Apple Account.
  @Test func `after a reset a join by a stranger with his own account does not lock the device out`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      _ = try await ResetDeviceSecretRequest(deviceID: "phone", bundleID: ScreenTime.bundleID).perform(
        at: harness.service.support, by: try #require(Harness.ada))
      _ = try await harness.device("phone", shows: bought, secret: first)
      #expect(try await harness.children(of: "phone", secret: first).status == 200)

      try await harness.device("stranger", buys: ScreenTime.individual)
      _ = try await harness.device("phone", shows: bought, secret: second)
      #expect(
        try await Self.join("phone", of: "evil", to: "stranger", secret: second, harness).status == 201)
      #expect(try await harness.unpair("phone", from: "stranger").status == 200)

      let third = ScreenTime.secret(3)
      _ = try await harness.device("phone", shows: bought, secret: third)
      #expect(try await harness.children(of: "phone", secret: third).status == 200)
      #expect(try await harness.launch("phone", account: "evil", secret: second).status == 401)
      #expect(try await harness.children(of: "phone", secret: third).status == 200)
    }
  }

  @Test func `an app transaction of another app or another signer joins no child`() async throws {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      let code = try await harness.code(of: "phone").string("code") ?? ""
      let other = try harness.store.appTransaction(of: ScreenTime.heatlab, accountID: "ann", in: .production)
      for (signed, name) in [(other.signed, "wrong_app"), ("a.b.c", "invalid_signature")] {
        let refused = try await harness.send(
          .put, "/api/v1/devices/tablet/parent?bundleID=\(ScreenTime.bundleID)",
          json: #"{"pairingCode": "\#(code)", "signedAppTransaction": "\#(signed)"}"#, secret: first)
        #expect(refused.status == 422 && refused.code == name)
      }
      #expect(try await harness.count("devices") == 0)
    }
  }
}
