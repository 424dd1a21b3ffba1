import Actions
import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// Which parents a child has: after its parent's purchase moved to another device, and where several devices named it.
@Suite struct MovedChildrenTests {
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
