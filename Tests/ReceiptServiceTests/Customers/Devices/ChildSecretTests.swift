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

/// Whose a child's device is, where nothing but its pairing tells; and which parents it has.
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

  @Test func `a device that paid keeps tier and end beside a stranger's trial that names it`() async throws {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("victim", shows: bought)
      let before = try await harness.entitlements("victim")
      _ = try await harness.launch("stranger", account: "stranger")
      #expect(try await harness.pair("victim", to: "stranger").status == 201)
      let after = try await harness.entitlements("victim")
      for member in ["tier", "status", "validUntil"] {
        #expect(
          after.string("entitlements.\(member)") == before.string("entitlements.\(member)"), "\(member)")
      }
      #expect(after.string("pairing.role") == nil)
      // Once the purchase is over, the naming counts.
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.childState("victim") == "trial active")
    }
  }

  @Test func `a parent that cannot be read, and that only named a device, takes nothing from it`()
    async throws
  {
    try await withScreenTime { harness in
      let broken = try await harness.device("stranger", buys: ScreenTime.family)
      _ = try await harness.device("payer", buys: ScreenTime.individual)
      #expect(try await harness.pair("payer", to: "stranger").status == 201)
      #expect(try await harness.pair("kid", to: "stranger").status == 201)
      #expect(try await harness.join("joined", to: "stranger").status == 201)
      // The word of a later build.
      _ = try await harness.pool.query(
        """
        UPDATE subscriptions SET environment = 'Beta'
        WHERE original_transaction_id = \(broken.originalTransactionID)
        """)
      #expect(try await harness.entitlements("payer").string("entitlements.tier") == "individual")
      #expect(try await harness.entitlements("kid").status == 200)
      // A child that joined keeps what it has cached.
      #expect(try await harness.child("joined").status == 500)
    }
  }

  @Test func `one plan pairs 20 more children a day than it allows, on all of its devices together`()
    async throws
  {
    try await withScreenTime { harness in
      let phones = ["phone-0", "phone-1", "phone-2"]
      let bought = try await harness.device(phones[0], buys: ScreenTime.family)
      for phone in phones { _ = try await harness.device(phone, shows: bought) }
      var joined = 0
      for number in 0..<30 {
        let answer = try await harness.join("child-\(number)", to: phones[number % 3])
        guard answer.status == 201 else {
          #expect(answer.status == 429 && answer.code == "rate_limited")
          continue
        }
        joined += 1
        #expect(try await harness.unpair("child-\(number)", from: phones[(number + 1) % 3]).status == 200)
      }
      #expect(joined == 25)
    }
  }

  @Test func `devices that only named the plan's transaction use up pairings of their own, all together`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      for name in ["old-build", "other-build"] {
        _ = try await harness.validate(["transactionID": bought.originalTransactionID, "deviceID": name])
      }
      for number in 0..<25 {
        let parent = number % 2 == 0 ? "old-build" : "other-build"
        #expect(try await harness.pair("doll-\(number)", to: parent).status == 201)
        #expect(try await harness.unpair("doll-\(number)", from: parent).status == 200)
      }
      for parent in ["old-build", "other-build"] {
        #expect(try await harness.pair("doll", to: parent).status == 429)
      }
      #expect(try await harness.pair("ann", to: "phone").status == 201)
    }
  }

  @Test func `a code that a paired child uses again is counted, too`() async throws {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.join("tablet", to: "phone").status == 201)
      for _ in 1...24 { #expect(try await harness.join("tablet", to: "phone").status == 200) }
      #expect(try await harness.join("tablet", to: "phone").status == 429)
    }
  }

  // MARK: Which parents

  @Test func `a child reads its parent's plan, although nine devices without access named it before`()
    async throws
  {
    try await withScreenTime { harness in
      for number in 1...9 {
        _ = try await harness.launch("stranger-\(number)", account: "stranger-\(number)")
        #expect(try await harness.pair("tablet", to: "stranger-\(number)").status == 201)
      }
      harness.clock.advance(days: 40)
      try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.pair("tablet", to: "phone").status == 201)
      #expect(try await harness.childState("tablet") == "active active")
    }
  }

  @Test func `children that followed a purchase come back when support transfers it back, and no others`()
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "phone").status == 201)
      // A stranger with a trial of its own takes the place, and gives it up to another device.
      _ = try await harness.launch("stranger", account: "stranger")
      _ = try await harness.device("stranger", shows: bought)
      harness.clock.advance(seconds: 1)
      #expect(try await harness.pair("doll", to: "stranger").status == 201)
      #expect(try await harness.children(of: "stranger").children == ["ann active", "doll active"])
      harness.clock.advance(days: 1)
      _ = try await harness.device("stranger-2", shows: bought)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.children(of: "phone").children == ["ann active"])
      #expect(try await harness.childState("ann") == "active active")
      #expect(try await harness.children(of: "stranger").children == ["doll active"])
    }
  }

  /// Support gives the purchase back to a parent. By the app's rule the children of the device that goes follow, too:
  /// it may be the parent's own.
  @Test(arguments: [true, false])
  func
    `a parent to which support gives its purchase back gets its own children, and none of those that a stranger paired`(
      isBySupport: Bool
    ) async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "phone").status == 201)
      harness.clock.advance(days: 1)
      _ = try await harness.device("stranger", shows: bought)
      #expect(try await harness.pair("doll", to: "stranger").status == 201)
      harness.clock.advance(days: 1)
      // The stranger's second device takes the children of its first, too.
      _ = try await harness.device("stranger-2", shows: bought)
      #expect(try await harness.children(of: "stranger-2").children == ["ann active", "doll active"])
      if isBySupport {
        _ = try await harness.desk.transfer(
          bought.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      } else {
        harness.clock.advance(days: 1)
        _ = try await harness.device("phone", shows: bought)
      }
      #expect(
        try await harness.children(of: "phone").children
          == (isBySupport ? ["ann active"] : ["ann active", "doll active"]))
      #expect(try await harness.childState("ann") == "active active")
      let stays = try await harness.childState("doll") == "active active"
      #expect(stays != isBySupport)
    }
  }

  @Test
  func `of two pairings of one child that moved with a purchase, the one that its parent named comes back`()
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      for stranger in ["stranger", "stranger-2"] {
        _ = try await harness.launch(stranger, account: stranger)
      }
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "phone").status == 201)
      for (device, pairs) in [("stranger", false), ("phone", true), ("stranger-2", false)] {
        harness.clock.advance(days: 1)
        _ = try await harness.device(device, shows: bought)
        // The first stranger has a trial of its own, and so the child.
        if pairs {
          #expect(try await harness.pair("ann", to: "stranger", name: "stranger's").status == 200)
          #expect(try await harness.pair("ann", to: device, name: "own").status == 201)
        }
      }
      #expect(try await harness.children(of: "stranger").children == ["ann active"])
      #expect(try await harness.children(of: "stranger-2").children == ["ann active"])
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      let children = try await harness.children(of: "phone")
      #expect((children["children"] as? [[String: Any]])?.map { $0["name"] as? String } == ["own"])
      #expect(try await harness.childState("ann") == "active active")
      // The parent that unpairs the child has unpaired it.
      #expect(try await harness.count("devices") == 1)
    }
  }

  /// - Parameter hasTrial: whether the stranger has access by a trial of its own.
  @Test(arguments: [true, false])
  func `a child that had moved with an earlier purchase comes back with the present one`(hasTrial: Bool)
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      if hasTrial { _ = try await harness.launch("stranger", account: "stranger") }
      let first = try await harness.device("old-phone", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "old-phone").status == 201)
      harness.clock.advance(days: 1)
      _ = try await harness.device("phone", shows: first)
      let second = try await harness.device("phone", buys: ScreenTime.family)
      try await harness.happens(.refundLatest, to: first.originalTransactionID)
      harness.clock.advance(days: 1)
      _ = try await harness.device("stranger", shows: second)
      #expect(try await harness.children(of: "stranger").children == ["ann active"])
      _ = try await harness.desk.transfer(
        second.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.children(of: "phone").children == ["ann active"])
      #expect(try await harness.children(of: "stranger").children == [])
      #expect(try await harness.childState("ann") == "active active")
    }
  }

  @Test func `a transfer of another purchase takes no child of a parent whose plan is over`() async throws {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let bought = try await harness.device("old-phone", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "old-phone").status == 201)
      harness.clock.advance(days: 1)
      _ = try await harness.device("phone", shows: bought)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      let other = try await harness.device("tablet", buys: ScreenTime.family)
      _ = try await harness.desk.transfer(
        other.originalTransactionID, to: "old-phone", by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.children(of: "old-phone").children == [])
      #expect(try await harness.children(of: "phone").children == ["ann paused"])
    }
  }

  @Test func `a child that joined another parent with a code does not come back to a former one`()
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      _ = try await harness.launch("father", account: "father")
      let bought = try await harness.device("mother", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "mother").status == 201)
      harness.clock.advance(days: 1)
      _ = try await harness.device("father", shows: bought)
      _ = try await harness.device("father", buys: ScreenTime.family)
      #expect(try await harness.join("ann", to: "father").status == 200)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "mother", by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.children(of: "mother").children == [])
      #expect(try await harness.children(of: "father").children == ["ann active"])
    }
  }

  @Test
  func `a child that joins with a code is of the device that made it, whichever device named it before`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      _ = try await harness.device("stranger", shows: bought)
      for device in ["stranger", "phone"] {
        let isFirst = device == "stranger"
        #expect(try await harness.pair("ann", to: device).status == (isFirst ? 201 : 200))
        harness.clock.advance(seconds: 1)
      }
      #expect(try await harness.join("ann", to: "phone").status == 200)
      #expect(try await harness.count("devices WHERE device_id = 'phone' AND confirmed_at IS NOT NULL") == 1)
      #expect(try await harness.count("devices") == 1)
      // Support's transfer removes the stranger.
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.children(of: "phone").children == ["ann active"])
      #expect(try await harness.children(of: "stranger").children == [])
      #expect(try await harness.childState("ann") == "active active")
      #expect(try await harness.unpair("ann", from: "phone").children == [])
      #expect(try await harness.childState("ann") == "expired")
    }
  }

  @Test func `a device whose trial goes on by free access keeps its children when its purchase goes`()
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let ada = try #require(Harness.ada)
      _ = try await harness.launch("phone", account: "mother")
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "phone").status == 201)
      _ = try await harness.desk.setFreeAccess(true, bundleID: ScreenTime.bundleID, by: ada)
      harness.clock.advance(days: 20)
      _ = try await harness.desk.setFreeAccess(false, bundleID: ScreenTime.bundleID, by: ada)
      // The trial of 30 days ends on day 50.
      harness.clock.advance(days: 15)
      _ = try await harness.happens(.renew, to: bought.originalTransactionID)
      _ = try await harness.device("stranger", shows: bought)
      #expect(try await harness.childState("phone") == "trial")
      #expect(try await harness.children(of: "phone").children == ["ann active"])
      #expect(try await harness.children(of: "stranger").children == [])
    }
  }

  @Test func `an erased parent is not named by a child that it had`() async throws {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "phone").status == 201)
      _ = try await harness.device("new-phone", shows: bought)
      func former() async throws -> [String] {
        try await harness.pool.query("SELECT former_parents FROM devices")[0].decode("former_parents")
      }
      #expect(try await former() == ["phone"])
      // Of this one nothing else is left.
      _ = try await harness.pool.query(
        "UPDATE devices SET former_parents = former_parents || 'older-phone'::text")
      for phone in ["phone", "older-phone"] {
        let report = try await harness.desk.eraseCustomer(
          phone, bundleID: ScreenTime.bundleID, by: try #require(Harness.ada), isForced: true)
        #expect(!report.description.contains("pairings of other customers"))
        #expect(try await !former().contains(phone))
      }
      #expect(try await harness.children(of: "new-phone").children == ["ann active"])
    }
  }

  @Test func `of more than twenty parents a child keeps the first ten and the last ten`() async throws {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let bought = try await harness.device("phone-0", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "phone-0").status == 201)
      for number in 1...22 {
        harness.clock.advance(days: 1)
        _ = try await harness.device("phone-\(number)", shows: bought)
      }
      let former: [String] = try await harness.pool.query("SELECT former_parents FROM devices")[0].decode(
        "former_parents")
      #expect(former == ((0..<10).map { "phone-\($0)" } + (12..<22).map { "phone-\($0)" }))
    }
  }
}
