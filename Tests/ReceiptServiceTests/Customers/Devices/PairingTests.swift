import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Testing

@testable import ReceiptService

@Suite struct PairingTests {
  @Test func `fifty concurrent pairings stop at the tier's limit`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      let answers = try await atOnce(50) { try await harness.pair("child-\($0)", to: "phone") }
      #expect(answers.count { $0.status == 201 } == 5)
      let refused = answers.filter { $0.status == 409 }
      #expect(refused.count == 45)
      #expect(refused.allSatisfy { $0.code == "device_limit_reached" })
      #expect(try await harness.count("devices") == 5)
      #expect(try await harness.children(of: "phone").children?.count == 5)
    }
  }

  @Test func `a child device that is paired fifty times concurrently counts once`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      let answers = try await atOnce(50) { try await harness.pair("child", to: "phone", name: "name \($0)") }
      #expect(answers.count { $0.status == 201 } == 1)
      #expect(answers.count { $0.status == 200 } == 49)
      #expect(try await harness.count("devices") == 1)
    }
  }

  @Test func `a downgrade pauses the newest pairings, and an upgrade restores them`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      try await harness.pair(5, to: "phone")
      let all = (1...5).map { "child-\($0) active" }

      // The downgrade takes effect at the renewal.
      try await harness.happens(.changeProduct(ScreenTime.individual), to: bought.originalTransactionID)
      #expect(try await harness.children(of: "phone").children == all)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      try await harness.happens(.renew, to: bought.originalTransactionID)
      let down = try await harness.children(of: "phone")
      #expect(down.children == ["child-1 active"] + (2...5).map { "child-\($0) paused" })
      #expect(down["limit"] as? Int == 1)
      // A paused device may be renamed, but a new one exceeds the limit.
      #expect(try await harness.pair("child-5", to: "phone", name: "Emma's iPad").status == 200)
      #expect(try await harness.pair("child-6", to: "phone").code == "device_limit_reached")
      #expect(try await harness.count("devices") == 5)

      harness.clock.advance(seconds: 60)
      try await harness.happens(.changeProduct(ScreenTime.family), to: bought.originalTransactionID)
      let up = try await harness.children(of: "phone")
      #expect(up.children == all)
      let last = (up["children"] as? [[String: Any]])?.last
      #expect(last?["name"] as? String == "Emma's iPad")
    }
  }

  @Test func `a removed child device no longer counts toward the limit`() async throws {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.individual)
      try await harness.pair(1, to: "phone")
      let refused = try await harness.pair("child-2", to: "phone")
      #expect(refused.status == 409)
      #expect(refused.string("error") == "Your plan allows 1 device. Upgrade to pair more.")
      let left = try await harness.unpair("child-1", from: "phone")
      #expect(left.status == 200)
      #expect(left.children == [])
      #expect(try await harness.unpair("child-1", from: "phone").status == 404)
      #expect(try await harness.pair("child-2", to: "phone").children == ["child-2 active"])
    }
  }

  @Test func `the removal of the oldest pairing activates the next one`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      try await harness.pair(3, to: "phone")
      harness.clock.advance(days: 30)
      #expect(
        try await harness.unpair("child-1", from: "phone").children == ["child-2 active", "child-3 paused"])
    }
  }

  @Test func `the error at the highest tier's pairing limit does not suggest an upgrade`() async throws {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      try await harness.pair(5, to: "phone")
      let refused = try await harness.pair("child-6", to: "phone")
      #expect(refused.code == "device_limit_reached")
      #expect(refused.string("error") == "Your plan allows 5 devices. Remove one to pair another.")
    }
  }

  @Test(arguments: ["null", "1000"])
  func `a tier without a limit, or with a higher one, allows 100 pairings`(limit: String) async throws {
    let shipped = #""childDevices": 5"#
    let configuration = try ScreenTime.configuration()
    #expect(configuration.contains(shipped))
    let changed = configuration.replacing(shipped, with: #""childDevices": \#(limit)"#)
    try await withHarness(configuration: changed) { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      try await harness.pair(100, to: "phone")
      let refused = try await harness.pair("child-101", to: "phone")
      #expect(refused.status == 409 && refused.code == "device_limit_reached")
      #expect(refused.string("error") == "Your plan allows 100 devices. Remove one to pair another.")
      #expect(try await harness.pair("child-100", to: "phone", name: "Emma's iPad").status == 200)
      let listed = try await harness.children(of: "phone")
      #expect(listed.children?.allSatisfy { $0.hasSuffix(" active") } == true)
      #expect(listed["limit"] as? Int == Int(limit))
      #expect(try await harness.unpair("child-1", from: "phone").status == 200)
      #expect(try await harness.pair("child-101", to: "phone").status == 201)
    }
  }

  @Test func `a device cannot see or remove pairings of another device`() async throws {
    try await withScreenTime { harness in
      for device in ["phone", "other"] { _ = try await harness.launch(device) }
      try await harness.pair(2, to: "phone")
      #expect(try await harness.children(of: "other").children == [])
      #expect(try await harness.children(of: "phone", bundleID: ScreenTime.heatlab).children == [])
      #expect(try await harness.unpair("child-1", from: "other").status == 404)
      // The same device may be paired to both parents' devices.
      #expect(try await harness.pair("child-1", to: "other").children == ["child-1 active"])
      #expect(try await harness.children(of: "phone").children == ["child-1 active", "child-2 active"])
    }
  }

  @Test func `the free tier allows no pairing, and invalid device names are refused`() async throws {
    try await withScreenTime { harness in
      #expect(try await harness.pair("child", to: "nobody").code == "device_limit_reached")
      _ = try await harness.launch("phone")
      for child in ["", "tab\tbed", String(repeating: "x", count: 256)] {
        #expect(try await harness.pair(child, to: "phone").code == "invalid_request")
      }
      let long = String(repeating: "x", count: 129)
      #expect(try await harness.pair("child", to: "phone", name: long).code == "invalid_request")
      let users = try await harness.children(of: "phone", bundleID: "com.swiftclimb.app")
      #expect(users.status == 422)
      #expect(users.code == "wrong_app")
      // ScreenTime Rewards is the default app.
      let nameless = try await harness.send(.get, "/api/v1/devices/phone/children")
      #expect(nameless.status == 200)
      #expect(try await harness.count("devices") == 0)
    }
  }
}
