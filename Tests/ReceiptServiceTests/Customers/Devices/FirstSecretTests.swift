import Actions
import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// Whose first secret a device keeps that has records of several accounts, or of none, and what support's reset changes.
@Suite struct FirstSecretTests {
  private let own = ScreenTime.secret(1)
  private let foreign = ScreenTime.secret(2)

  @Test
  func `a stranger's purchase or trial proves no first secret of a device to which support granted a tier`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.grant("phone")
      harness.clock.advance(seconds: 60)
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      for _ in 1...2 {
        #expect(try await harness.device("phone", shows: bought, secret: foreign).status == 200)
        #expect(try await harness.launch("phone", account: "evil", secret: foreign).status < 300)
      }
      #expect(try await harness.count("device_secrets") == 0)
      #expect(try await harness.token(of: "phone").string("entitlements.tier") == "family")
    }
  }

  @Test func `after support's reset a device whose record began with a grant keeps the next secret`()
    async throws
  {
    try await withScreenTime { harness in
      #expect(try await harness.token(of: "phone", secret: foreign).status == 200)
      try await harness.grant("phone")
      harness.clock.advance(seconds: 60)
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      #expect(try await harness.reset("phone"))
      _ = try await harness.device("phone", shows: bought)
      #expect(try await harness.token(of: "phone", secret: own).status == 200)
      #expect(try await harness.token(of: "phone").status == 401)
      #expect(try await harness.count("device_secrets") == 1)
    }
  }

  @Test func `a week after support's reset a secret needs a proof again`() async throws {
    try await withScreenTime { harness in
      try await harness.grant("phone")
      #expect(try await harness.reset("phone"))
      #expect(try await harness.reset("phone") == false)
      harness.clock.advance(days: 8)
      #expect(try await harness.token(of: "phone", secret: own).status == 200)
      #expect(try await harness.count("device_secrets") == 0)
      #expect(try await harness.reset("phone"))
    }
  }

  @Test(arguments: [true, false])
  func
    `after a reset the purchase that support gave to a device proves its secret, a stranger's trial does not`(
      _ strangerIsFirst: Bool
    ) async throws
  {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("old", shows: bought)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.reset("phone"))
      harness.clock.advance(seconds: 60)
      if strangerIsFirst {
        for _ in 1...2 {
          #expect(try await harness.launch("phone", account: "evil", secret: foreign).status < 300)
        }
        #expect(try await harness.count("device_secrets") == 0)
      }
      #expect(try await harness.device("phone", shows: bought, secret: own).status == 200)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
      #expect(try await harness.children(of: "phone", secret: foreign).status == 401)
      // The customer that had the purchase before still has its signed transaction: it replaces no secret.
      #expect(try await harness.device("phone", shows: bought, secret: foreign).status == 200)
      #expect(try await harness.children(of: "phone", secret: foreign).status == 401)
    }
  }

  @Test
  func `a stranger's trial on a paying device of an old build keeps a secret from it only until the reset`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("phone", shows: bought)
      harness.clock.advance(seconds: 60)
      #expect(try await harness.launch("phone", account: "evil").status < 300)
      #expect(try await harness.device("phone", shows: bought, secret: own).status == 200)
      #expect(try await harness.count("device_secrets") == 0)
      // Only support can tell whose of the two accounts the device is.
      await #expect(throws: SupportRefusal.self) { try await harness.reset("phone") }
      await #expect(throws: SupportRefusal.self) { try await harness.reset("phone", proof: "another") }
      #expect(try await harness.reset("phone", proof: bought.originalTransactionID))
      #expect(try await harness.launch("phone", account: "evil", secret: foreign).status < 300)
      #expect(try await harness.count("device_secrets") == 0)
      #expect(try await harness.device("phone", shows: bought, secret: own).status == 200)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
      #expect(try await harness.children(of: "phone").status == 401)
    }
  }

  @Test func `a purchase that a stranger bound and took away again proves nothing beside a grant`()
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      try await harness.grant("phone")
      harness.clock.advance(seconds: 60)
      let bought = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      for device in ["phone", "evil"] { _ = try await harness.device(device, shows: bought) }
      #expect(try await harness.device("phone", shows: bought, secret: foreign).status == 200)
      #expect(try await harness.launch("phone", account: "evil", secret: foreign).status < 300)
      #expect(try await harness.launch("phone", account: "evil", secret: foreign).status < 300)
      #expect(try await harness.count("device_secrets") == 0)
    }
  }

  @Test(arguments: [true, false])
  func `a stranger's trial from before the customer's secret does not replace it after a reset`(
    _ hasGrant: Bool
  ) async throws {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      if hasGrant {
        try await harness.grant("phone")
      } else {
        _ = try await harness.device("phone", shows: bought)
      }
      harness.clock.advance(seconds: 60)
      #expect(try await harness.launch("phone", account: "evil").status < 300)
      #expect(try await harness.reset("phone", proof: hasGrant ? "none" : bought.originalTransactionID))
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("phone", shows: bought, secret: own)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
      #expect(try await harness.launch("phone", account: "evil", secret: foreign).status == 401)
      #expect(try await harness.launch("phone", account: "evil").status == 401)
      harness.clock.advance(days: 30)
      #expect(try await harness.launch("phone", account: "evil", secret: foreign).status == 401)
      // What the customer bound with the secret replaces it.
      #expect(try await harness.device("phone", shows: bought, secret: foreign).status == 200)
      #expect(try await harness.children(of: "phone", secret: foreign).status == 200)
    }
  }

  /// The customer's request waits while a stranger binds a purchase, or another server's clock is ahead.
  @Test func `what a device got while the request with the secret waited does not replace the secret`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("phone", shows: bought)
      #expect(try await harness.reset("phone"))
      let requested = harness.clock.now
      harness.clock.advance(seconds: 5)
      let evil = try await harness.account("evil", buys: ScreenTime.individual)
      _ = try await harness.device("phone", shows: evil)
      harness.clock.set(requested)
      _ = try await harness.device("phone", shows: bought, secret: own)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
      harness.clock.advance(seconds: 60)
      for secret in [foreign, nil] {
        _ = try await harness.device("phone", shows: evil, secret: secret)
        #expect(try await harness.children(of: "phone", secret: secret).status == 401)
      }
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
    }
  }

  /// An app without trials proves the account by its next validation alone.
  @Test(arguments: [true, false], [true, false])
  func `a customer with a grant and a reset gets a new secret at each reinstall`(
    boughtBefore: Bool, hasTrials: Bool
  ) async throws {
    try await withScreenTime { harness in
      try await harness.grant("phone")
      harness.clock.advance(seconds: 60)
      let bought = try await harness.account("ann", buys: ScreenTime.family)
      if boughtBefore { _ = try await harness.device("phone", shows: bought) }
      #expect(try await harness.reset("phone", proof: boughtBefore ? bought.originalTransactionID : nil))
      harness.clock.advance(seconds: 60)
      // The first request after the reset has no proof; the next one proves the account with the secret.
      #expect(try await harness.token(of: "phone", secret: own).status == 200)
      if hasTrials { #expect(try await harness.launch("phone", account: "ann", secret: own).status < 300) }
      #expect(try await harness.device("phone", shows: bought, secret: own).status == 200)
      for byte: UInt8 in 11...13 {
        harness.clock.advance(days: 30)
        let secret = ScreenTime.secret(byte)
        #expect(try await harness.device("phone", shows: bought, secret: secret).status == 200)
        #expect(try await harness.children(of: "phone", secret: secret).status == 200)
        #expect(try await harness.launch("phone", account: "evil", secret: foreign).status == 401)
      }
    }
  }

  /// A return to a purchase begins its time on the device anew, and a purchase may be stored before a device has it.
  @Test(arguments: [1, 2])
  func `the account that support names keeps the next secret, whenever the device got its parts`(
    _ devices: Int
  )
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: devices)) { harness in
      let foreignPurchase = try harness.buy(ScreenTime.individual, bundleID: ScreenTime.bundleID)
      try await harness.arrives(foreignPurchase)
      harness.clock.advance(seconds: 60)
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("phone", shows: bought)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("phone", shows: foreignPurchase)
      if devices == 2 {
        for device in ["tablet", "new", "phone"] {
          harness.clock.advance(seconds: 60)
          _ = try await harness.device(device, shows: bought)
        }
      }
      #expect(try await harness.reset("phone", proof: bought.originalTransactionID))
      #expect(try await harness.device("phone", shows: foreignPurchase, secret: foreign).status == 200)
      #expect(try await harness.count("device_secrets") == 0)
      _ = try await harness.device("phone", shows: bought, secret: own)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
      // An operator raises the limit: the time since which the device has the purchase is unknown.
      if devices == 2 {
        _ = try await harness.service.pool.query("UPDATE purchase_devices SET since = '1970-01-01'")
      }
      _ = try await harness.device("phone", shows: foreignPurchase, secret: foreign)
      #expect(try await harness.children(of: "phone", secret: foreign).status == 401)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
    }
  }

  @Test func `after a reset a device that lost its only purchase keeps the secret of that account alone`()
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for device in ["phone", "tablet"] { _ = try await harness.device(device, shows: bought) }
      #expect(try await harness.reset("phone"))
      #expect(try await harness.token(of: "phone", secret: foreign).status == 200)
      #expect(try await harness.launch("phone", account: "evil", secret: foreign).status < 300)
      #expect(try await harness.count("device_secrets") == 0)
      _ = try await harness.device("phone", shows: bought, secret: own)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
    }
  }

  @Test func `a purchase that support gave to a device replaces no secret after another device took it`()
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      #expect(try await harness.token(of: "phone", secret: own).status == 200)
      try await harness.grant("phone")
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("old", shows: bought)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      harness.clock.advance(days: 2)
      _ = try await harness.device("next", shows: bought)
      _ = try await harness.device("phone", shows: bought, secret: foreign)
      #expect(try await harness.children(of: "phone", secret: foreign).status == 401)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
    }
  }

  /// Support cannot check whose device an id is.
  @Test func `a purchase without an owner that support gave to a device replaces no secret`() async throws {
    try await withScreenTime { harness in
      #expect(try await harness.token(of: "phone", secret: own).status == 200)
      try await harness.grant("phone")
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      try await harness.arrives(bought)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      _ = try await harness.device("phone", shows: bought, secret: foreign)
      #expect(try await harness.children(of: "phone", secret: foreign).status == 401)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
      // Support can say that it is the customer's.
      #expect(try await harness.reset("phone", proof: bought.originalTransactionID))
      for byte: UInt8 in 11...12 {
        let secret = ScreenTime.secret(byte)
        _ = try await harness.device("phone", shows: bought, secret: secret)
        #expect(try await harness.children(of: "phone", secret: secret).status == 200)
      }
    }
  }

  @Test func `what a device gets after a reset without a proof needs a proof`() async throws {
    try await withScreenTime { harness in
      #expect(try await harness.token(of: "phone", secret: foreign).status == 200)
      #expect(try await harness.reset("phone"))
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.device("old", shows: bought)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "phone", by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.token(of: "phone", secret: foreign).status == 200)
      #expect(try await harness.count("device_secrets") == 0)
      _ = try await harness.device("phone", shows: bought, secret: own)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
      #expect(try await harness.token(of: "phone", secret: foreign).status == 401)
    }
  }

  @Test func `a reset that names the trial means its account, also after the device has another trial`()
    async throws
  {
    try await withScreenTime { harness in
      #expect(try await harness.launch("phone", account: "ann").status < 300)
      #expect(try await harness.reset("phone"))
      _ = try await harness.service.pool.query("DELETE FROM trials")
      #expect(try await harness.launch("phone", account: "evil").status < 300)
      #expect(try await harness.launch("phone", account: "evil", secret: foreign).status < 300)
      #expect(try await harness.count("device_secrets") == 0)
      #expect(try await harness.launch("phone", account: "ann", secret: own).status < 300)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
    }
  }

  @Test(arguments: ["none", "trial"])
  func `erasing a device that has the name of a proof leaves other devices' resets`(_ name: String)
    async throws
  {
    try await withScreenTime { harness in
      if name == "none" {
        try await harness.grant("phone")
      } else {
        #expect(try await harness.launch("phone", account: "ann").status < 300)
      }
      #expect(try await harness.reset("phone"))
      #expect(try await harness.launch(name, account: "evil").status < 300)
      _ = try await harness.desk.eraseCustomer(
        name, bundleID: ScreenTime.bundleID, by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.launch("phone", account: "ann", secret: own).status < 300)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
    }
  }

  @Test func `a stranger's trial of the sandbox is not the trial that a reset means`() async throws {
    let configuration = try ScreenTime.configuration().replacing(
      #""sandboxGrants": "nobody""#, with: #""sandboxGrants": "everyone""#)
    try await withHarness(configuration: configuration) { harness in
      let started = try await harness.launch("phone", account: "ann")
      #expect(started.status < 300)
      _ = try await harness.launch("phone", account: "evil", in: .sandbox)
      #expect(try await harness.count("trials") == 2)
      #expect(try await harness.reset("phone", proof: "trial"))
      #expect(try await harness.launch("phone", account: "evil", in: .sandbox, secret: foreign).status < 300)
      #expect(try await harness.count("device_secrets") == 0)
      #expect(try await harness.launch("phone", account: "ann", secret: own).status < 300)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
    }
  }

  @Test func `an id that the app never saw has no secret to reset`() async throws {
    try await withScreenTime { harness in
      try await #require(throws: SupportRefusal.self) { try await harness.reset("typo") }
      #expect(try await harness.count("support_actions") == 0)
    }
  }

  @Test func `without the secret no device joins a trial that another device began`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("evil", account: "evil", secret: foreign)
      harness.clock.advance(days: 60)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
      #expect(try await harness.launch("phone", account: "evil").status == 401)
      #expect(try await harness.children(of: "phone", secret: own).status == 200)
      let started = try await harness.launch("phone", account: "ann", secret: own)
      #expect(started.status == 201)
      #expect(started.string("entitlements.status") == "trial")
    }
  }

  @Test func `an account that lost its purchase still counts beside a stranger's trial`() async throws {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      for device in ["phone", "tablet"] { _ = try await harness.device(device, shows: bought) }
      #expect(try await harness.launch("phone", account: "evil").status < 300)
      #expect(try await harness.launch("phone", account: "evil", secret: foreign).status < 300)
      #expect(try await harness.count("device_secrets") == 0)
    }
  }
}

extension Harness {
  /// A grant of support for half a year.
  fileprivate func grant(_ device: String) async throws {
    _ = try await desk.grant(
      to: device, bundleID: ScreenTime.bundleID, tier: "family", days: 180, by: try #require(Self.ada),
      isForced: true)
  }

  /// - Returns: whether support's reset changed something.
  fileprivate func reset(_ device: String, proof: String? = nil) async throws -> Bool {
    try await ResetDeviceSecretRequest(deviceID: device, bundleID: ScreenTime.bundleID, proof: proof).perform(
      at: service.support, by: try #require(Self.ada)
    ).isChanged
  }
}
