import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import Deliveries
@testable import ReceiptService

/// Children's devices that join a parent's with a code, and what they have.
@Suite struct HouseholdTests {
  private static let parentSecret = ScreenTime.secret(1)

  @Test func `a child that proves the plan which its parent only named is renamed and ends as any other`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "phone").status == 201)
      _ = try await harness.oldBuild("old-phone", validates: bought.transactionID)
      harness.clock.advance(seconds: 1)
      #expect(try await harness.pair("tablet", to: "old-phone").status == 201)
      _ = try await harness.device("tablet", shows: bought)
      #expect(try await harness.children(of: "old-phone").children == ["tablet active"])
      let renamed = try await harness.pair("tablet", to: "old-phone", name: "Tablet")
      #expect(renamed.status == 200)
      #expect(try await harness.children(of: "phone").children == ["ann active"])
      // The tablet proved the plan, so its answers have no `pairing`.
      #expect(try await harness.childState("tablet") == "active")
      #expect(try await harness.unpair("tablet", from: "old-phone").children == [])
      #expect(try await harness.unpair("tablet", from: "old-phone").status == 404)
    }
  }

  @Test func `a device that only named a plan reads no name that another device gave a child`() async throws {
    try await withScreenTime { harness in
      func names(_ answer: Answer) -> [String] {
        (answer["children"] as? [[String: Any]] ?? []).map { "\($0["name"] ?? "") \($0["pairedAt"] ?? "")" }
      }
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      let own = names(try await harness.pair("ann", to: "phone", name: "Ann"))
      harness.clock.advance(seconds: 60)
      _ = try await harness.oldBuild("stranger", validates: bought.transactionID)
      let named = try await harness.pair("ann", to: "stranger", name: "mine")
      let now = harness.clock.now.formatted(.iso8601)
      #expect(named.status == 201 && names(named) == ["mine \(now)"])
      #expect(try await names(harness.children(of: "stranger")) == ["mine \(now)"])
      #expect(try await names(harness.pair("ann", to: "stranger", name: "other")) == ["other \(now)"])
      #expect(try await names(harness.children(of: "phone")) == own)
      #expect(try await harness.childState("ann") == "active active")
    }
  }

  // MARK: The story of a household

  @Test func `a household of three children lives through trial, grace, plans, a new phone and a refund`()
    async throws
  {
    try await withScreenTime { harness in
      let children = ["ann", "ben", "cai"]
      _ = try await harness.launch("phone", account: "mother", secret: Self.parentSecret)
      for child in children {
        #expect(try await harness.join(child, to: "phone").status == 201)
        harness.clock.advance(seconds: 1)
      }
      func states() async throws -> [String] {
        var states: [String] = []
        for child in children { states.append(try await harness.childState(child)) }
        return states
      }
      // The parent's trial, signed for each child.
      #expect(try await states() == ["trial active", "trial active", "trial active"])
      let ann = try await harness.child("ann")
      #expect(ann.features?["childDevices"] == "5")
      let phone = try await harness.entitlements(of: "phone", secret: Self.parentSecret)
      #expect(ann.date("entitlements.validUntil") == phone.date("entitlements.validUntil"))
      #expect(phone.date("entitlements.validUntil") != nil)
      #expect(ann.claims?["sub"] as? String == "ann")
      // None of them has a trial of its own.
      #expect(try await harness.launch("ann", secret: Harness.secret(of: "ann")).code == "paired_device")

      // Day 31: the trial is over, and its grace allows one device.
      harness.clock.advance(days: 30)
      #expect(
        try await states() == ["grace active", "expired paused device_limit", "expired paused device_limit"])
      #expect(try await harness.child("ben").features == ScreenTime.promised["lockout"])
      // Day 38: nothing is left.
      harness.clock.advance(days: 7)
      #expect(
        try await states() == Array(repeating: "expired paused parent_without_access", count: 3))

      // Individual: one device. Family: all.
      let bought = try await harness.buysOfHousehold(ScreenTime.individual, on: "phone", Self.parentSecret)
      #expect(
        try await states() == ["active active", "expired paused device_limit", "expired paused device_limit"])
      #expect(try await harness.child("ann").string("entitlements.tier") == "individual")
      harness.clock.advance(days: 1)
      try await harness.happens(.changeProduct(ScreenTime.family), to: bought.originalTransactionID)
      #expect(try await states() == ["active active", "active active", "active active"])
      #expect(try await harness.child("cai").string("entitlements.tier") == "family")

      // Ben gets another phone: the parent removes the old one, and the new one joins.
      #expect(try await harness.unpair("ben", from: "phone", secret: Self.parentSecret).status == 200)
      #expect(try await harness.childState("ben") == "expired")
      #expect(try await harness.join("ben-2", to: "phone").status == 201)
      #expect(try await harness.childState("ben-2") == "active active")

      // Day 40: a refund ends the access of the household.
      harness.clock.advance(days: 1)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await states()[0] == "expired paused parent_without_access")
      #expect(try await harness.child("ann").features == ScreenTime.promised["lockout"])
    }
  }

  @Test func `a child that bought the highest tier keeps it beside a trial of its parent that lasts longer`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.buysOfHousehold(ScreenTime.family, on: "ann", Harness.secret(of: "ann"))
      harness.clock.advance(days: 20)
      _ = try await harness.launch("phone", account: "mother", secret: Self.parentSecret)
      let before = try await harness.child("ann")
      #expect(try await harness.join("ann", to: "phone").status == 201)
      let after = try await harness.child("ann")
      #expect(after.string("entitlements.status") == "active")
      #expect(after.string("entitlements.tier") == "family")
      #expect(after.features == before.features)
      // The trial stands in once the purchase is over.
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.childState("ann") == "trial active")
    }
  }

  // MARK: Parents

  @Test func `all devices of a parent are parents of the same children`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.join("ann", to: "phone").status == 201)
      // A new phone of the same Apple Account.
      _ = try await harness.device("new-phone", shows: bought)
      #expect(try await harness.children(of: "new-phone").children == ["ann active"])
      harness.clock.advance(seconds: 1)
      #expect(try await harness.join("ben", to: "new-phone").status == 201)
      #expect(try await harness.children(of: "phone").children == ["ann active", "ben active"])
      #expect(try await harness.unpair("ann", from: "new-phone").children == ["ben active"])
      #expect(try await harness.childState("ann") == "expired")
      // A device that only names the transaction's id sees no children.
      _ = try await harness.validate(["transactionID": bought.originalTransactionID, "deviceID": "stranger"])
      #expect(try await harness.children(of: "stranger").children == [])
    }
  }

  @Test func `a child of two parents has the better access of both`() async throws {
    try await withScreenTime { harness in
      try await harness.device("mother", buys: ScreenTime.individual)
      let father = try await harness.device("father", buys: ScreenTime.family)
      for parent in ["mother", "father"] {
        #expect(try await harness.join("ann", to: parent).status == 201)
        #expect(try await harness.children(of: parent).children == ["ann active"])
      }
      #expect(try await harness.child("ann").string("entitlements.tier") == "family")
      try await harness.happens(.refundLatest, to: father.originalTransactionID)
      #expect(try await harness.child("ann").string("entitlements.tier") == "individual")
      #expect(try await harness.childState("ann") == "active active")
    }
  }

  @Test func `a child has its own purchase beside its parent's`() async throws {
    try await withScreenTime { harness in
      try await harness.device("mother", buys: ScreenTime.individual)
      for child in ["ann", "ben"] where child == "ann" { _ = try await harness.join(child, to: "mother") }
      _ = try await harness.buysOfHousehold(ScreenTime.family, on: "ann", Harness.secret(of: "ann"))
      #expect(try await harness.child("ann").string("entitlements.tier") == "family")
      // A child's access comes from its parent, so it opens nothing for devices that it pairs itself.
      #expect(try await harness.join("doll", to: "ann", by: Harness.secret(of: "ann")).status == 201)
      _ = try await harness.join("ben", to: "mother")
      #expect(try await harness.childState("doll") == "active active")
    }
  }

  @Test func `a child had access as long as it is active, and after that only by what was its own`()
    async throws
  {
    try await withScreenTime { harness in
      func had(_ child: String) async throws -> Bool? {
        try await harness.child(child).bool("entitlements.everHadAccess")
      }
      try await harness.device("mother", buys: ScreenTime.individual)
      #expect(try await had("ann") == false)
      _ = try await harness.launch("ben", secret: Harness.secret(of: "ben"))
      #expect(try await harness.join("ann", to: "mother").status == 201)
      harness.clock.advance(seconds: 1)
      #expect(try await had("ann") == true)
      let bought = try await harness.device("father", buys: ScreenTime.family)
      #expect(try await harness.join("cai", to: "father").status == 201)
      #expect(try await had("cai") == true)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.childState("cai") == "expired paused parent_without_access")
      #expect(try await had("cai") == false)
      #expect(try await harness.unpair("ann", from: "mother").status == 200)
      #expect(try await had("ann") == false)
      // A trial of its own stays.
      harness.clock.advance(days: 60)
      #expect(try await had("ben") == true)
    }
  }

  @Test func `a child without a purchase is no parent`() async throws {
    try await withScreenTime { harness in
      try await harness.device("mother", buys: ScreenTime.family)
      _ = try await harness.join("ann", to: "mother")
      let refused = try await harness.join("doll", to: "ann", by: Harness.secret(of: "ann"))
      #expect(refused.status == 409 && refused.code == "device_limit_reached")
    }
  }

  // MARK: Devices that a parent only named

  @Test func `a device that a parent named has the parent's features and keeps its own trial`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("mother", buys: ScreenTime.individual)
      #expect(try await harness.pair("tablet", to: "mother").status == 201)
      #expect(try await harness.childState("tablet") == "active active")
      #expect(try await harness.launch("tablet", secret: Harness.secret(of: "tablet")).status == 201)
      // The trial opens more than the tier.
      harness.clock.advance(days: 29)
      #expect(try await harness.child("tablet").bool("entitlements.isAccessGranted") == true)
      // Once it confirms with a code, it has what its parent has, and its own trial counts no more.
      #expect(try await harness.join("tablet", to: "mother").status == 200)
      try await harness.happens(.refundLatest, to: bought.originalTransactionID)
      #expect(try await harness.childState("tablet") == "expired paused parent_without_access")
      // A stranger without a plan takes nothing from it.
      _ = try await harness.launch("stranger")
      #expect(try await harness.pair("phone-of-another", to: "stranger").status == 201)
      #expect(try await harness.launch("phone-of-another").status == 201)
    }
  }

  @Test func `a named device with access of its own is paused by no parent`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "mother", secret: Self.parentSecret)
      for child in ["ann", "ben"] {
        #expect(try await harness.pair(child, to: "phone", secret: Self.parentSecret).status == 201)
        harness.clock.advance(seconds: 1)
      }
      harness.clock.advance(days: 20)
      for child in ["ann", "ben"] {
        #expect(
          try await harness.launch(child, account: child, secret: Harness.secret(of: child)).status == 201)
        #expect(try await harness.childState(child) == "trial active")
      }
      // The grace of the parent's trial allows one device; ben has his own trial.
      harness.clock.advance(days: 10)
      #expect(try await harness.childState("ann") == "trial active")
      #expect(try await harness.childState("ben") == "trial")
      harness.clock.advance(days: 7)
      #expect(try await harness.childState("ann") == "trial")
      // A child that confirmed has no trial of its own.
      #expect(try await harness.join("ben", to: "phone").status == 200)
      #expect(try await harness.childState("ben") == "expired paused parent_without_access")
      _ = try await harness.buysOfHousehold(ScreenTime.family, on: "phone", Self.parentSecret)
      #expect(try await harness.childState("ben") == "active active")
    }
  }

  @Test func `a child has what its parent has in every answer, also with a trial or a purchase that is over`()
    async throws
  {
    try await withScreenTime { harness in
      let secret = Harness.secret(of: "ann")
      _ = try await harness.launch("ann", account: "kid", secret: secret)
      let own = try await harness.buysOfHousehold(ScreenTime.individual, on: "ann", secret)
      try await harness.happens(.refundLatest, to: own.originalTransactionID)
      harness.clock.advance(days: 25)
      try await harness.device("mother", buys: ScreenTime.family)
      _ = try await harness.join("ann", to: "mother")
      harness.clock.advance(days: 10)
      let asked = try await harness.child("ann")
      #expect(asked.string("entitlements.tier") == "family")
      let launched = try await harness.launch("ann", account: "kid", secret: secret)
      let shown = try await harness.validate(
        ["signedTransaction": own.signedTransaction, "deviceID": "ann"], secret: secret)
      for answer in [launched, shown] {
        #expect(answer.status == 200)
        #expect(answer.string("entitlements.tier") == "family")
        #expect(answer.features == asked.features)
        #expect(answer.claims?["sub"] as? String == "ann")
      }
    }
  }

  @Test func `a child of an erased parent is free, without a pairing`() async throws {
    try await withScreenTime { harness in
      try await harness.device("mother", buys: ScreenTime.family)
      #expect(try await harness.join("ann", to: "mother").status == 201)
      #expect(try await harness.childState("ann") == "active active")
      try await harness.erase("mother")
      let ann = try await harness.child("ann")
      #expect(ann.bool("entitlements.isAccessGranted") == false && ann["pairing"] == nil)
      #expect(ann.features == ScreenTime.promised["lockout"])
    }
  }

  @Test func `a child of the same trial keeps it where its parent's purchase goes`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("mother", account: "family")
      _ = try await harness.launch("ann", account: "family", secret: Harness.secret(of: "ann"))
      let bought = try await harness.device("mother", buys: ScreenTime.family)
      #expect(try await harness.join("ann", to: "mother").status == 201)
      #expect(try await harness.childState("ann") == "active active")
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: "new-phone", by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.childState("ann") == "trial")
    }
  }

  @Test func `a parent that removes a child while the child is erased brings nothing of it back`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      #expect(try await harness.pair("ann", to: "phone").status == 201)
      let answer = try await harness.pool.withConnection { connection in
        _ = try await connection.query("BEGIN")
        _ = try await connection.query("DELETE FROM devices WHERE child_device_id = 'ann'")
        async let answer = harness.unpair("ann", from: "phone")
        try await harness.untilWaiting(1)
        _ = try await connection.query("COMMIT")
        return try await answer
      }
      #expect(answer.status == 404)
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
}

extension Answer {
  /// The claims of the entitlement token, not verified.
  fileprivate var claims: [String: Any]? {
    guard let part = string("entitlements.entitlementToken")?.split(separator: ".").dropFirst().first else {
      return nil
    }
    var text = String(part).replacing("-", with: "+").replacing("_", with: "/")
    text += String(repeating: "=", count: (4 - text.count % 4) % 4)
    return Data(base64Encoded: text).flatMap { try? JSONSerialization.jsonObject(with: $0) as? [String: Any] }
  }
}

extension Harness {
  fileprivate func entitlements(of device: String, secret: String) async throws -> Answer {
    try await send(
      .get, "/api/v1/devices/\(device)/entitlements?bundleID=\(ScreenTime.bundleID)", secret: secret)
  }

  fileprivate func buysOfHousehold(_ productID: String, on device: String, _ secret: String) async throws
    -> SignedOutcome
  {
    let bought = try buy(productID, bundleID: ScreenTime.bundleID)
    try await arrives(bought)
    _ = try await self.device(device, shows: bought, secret: secret)
    return bought
  }
}
