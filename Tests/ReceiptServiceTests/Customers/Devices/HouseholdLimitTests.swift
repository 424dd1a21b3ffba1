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
@testable import Support

/// A household cannot be stretched: one plan opens its places once, and only what gives access now joins parents.
@Suite struct HouseholdLimitTests {
  private let own = ScreenTime.secret(7)

  // MARK: One plan, one set of places

  @Test(arguments: [true, false])
  func `purchases of the sandbox join no parents, so one plan or trial serves its own number of children`(
    hasPlan: Bool
  ) async throws {
    try await withScreenTime { harness in
      if hasPlan {
        try await harness.device("phone", buys: ScreenTime.family)
      } else {
        _ = try await harness.launch("phone")
      }
      try await harness.pair(5, to: "phone")
      for number in 0..<3 {
        let free = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID, in: .sandbox)
        for device in ["other-\(number)", "phone"] { _ = try await harness.device(device, shows: free) }
        let refused = try await harness.pair("more-\(number)", to: "other-\(number)")
        #expect(refused.status == 409 && refused.code == "device_limit_reached")
        #expect(try await harness.children(of: "other-\(number)").children == [])
      }
      #expect(try await harness.children(of: "phone").children == (1...5).map { "child-\($0) active" })
    }
  }

  @Test func `a child counts toward the limit of the plan that opens it, by each parent's device`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.device("phone", buys: ScreenTime.family)
      try await harness.pair(5, to: "phone")
      // A paid plan for one child, which both devices show.
      let small = try await harness.device("other", buys: ScreenTime.individual)
      _ = try await harness.device("phone", shows: small)
      #expect(try await harness.pair("more", to: "other").code == "device_limit_reached")
      #expect(try await harness.children(of: "phone").children == (1...5).map { "child-\($0) active" })
      for number in 1...5 { #expect(try await harness.childState("child-\(number)") == "active active") }
    }
  }

  @Test func `children of a device that only named the transaction's id come after those of the parents`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      try await harness.pair(4, to: "phone")
      _ = try await harness.validate(["transactionID": bought.originalTransactionID, "deviceID": "old-build"])
      #expect(try await harness.pair("late", to: "old-build").children == ["late active"])
      #expect(try await harness.pair("later", to: "old-build").code == "device_limit_reached")
      #expect(try await harness.pair("child-5", to: "phone").status == 201)
      #expect(try await harness.children(of: "old-build").children == ["late paused"])
      #expect(try await harness.childState("late") == "expired paused device_limit")
    }
  }

  // MARK: What is over

  @Test func `a purchase or a trial that is over joins no parents, and its device keeps its own children`()
    async throws
  {
    try await withScreenTime { harness in
      let old = try await harness.device("phone", buys: ScreenTime.family)
      _ = try await harness.device("stranger", shows: old)
      #expect(try await harness.pair("doll", to: "stranger").status == 201)
      try await harness.happens(.refundLatest, to: old.originalTransactionID)
      let plan = try await harness.device("phone", buys: ScreenTime.family)
      #expect(plan.originalTransactionID != old.originalTransactionID)
      #expect(try await harness.pair("ann", to: "phone").children == ["ann active"])
      #expect(try await harness.children(of: "stranger").children == ["doll paused"])
      #expect(try await harness.unpair("ann", from: "stranger").status == 404)
      #expect(try await harness.pair("bear", to: "stranger").code == "device_limit_reached")
      #expect(try await harness.childState("doll") == "expired paused parent_without_access")
      #expect(try await harness.unpair("doll", from: "stranger").children == [])
    }
  }

  // MARK: Budgets

  @Test func `a parent's device pairs 20 more children a day than its plan allows`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      for number in 1...25 {
        #expect(try await harness.pair("child-\(number)", to: "phone").status == 201)
        #expect(try await harness.unpair("child-\(number)", from: "phone").status == 200)
      }
      let refused = try await harness.pair("child-26", to: "phone")
      #expect(refused.status == 429 && refused.code == "rate_limited")
      let wait = try #require(refused.headers[.retryAfter].flatMap { Int($0) })
      #expect((1...86_400).contains(wait))
      #expect(try await harness.join("child-26", to: "phone").status == 429)
      harness.clock.advance(days: 1)
      #expect(try await harness.pair("child-26", to: "phone").status == 201)
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

  @Test func `a child's device with nothing on record keeps no row in the outbox after it is unpaired`()
    async throws
  {
    try await withEvents(nil) { harness, _ in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.familyPlan, bundleID: TestApps.family)
      _ = try await harness.device("phone", shows: bought)
      let own = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      _ = try await harness.device("grown-up", shows: own)
      let query = "?bundleID=\(TestApps.family)"
      for child in ["ann", "grown-up", "ben"] {
        let paired = try await harness.send(
          .post, "/api/v1/devices/phone/children" + query, json: #"{"childDeviceID": "\#(child)"}"#)
        #expect(paired.status == 201)
      }
      try await harness.service.deliveries.outbox.run()
      for child in ["ann", "grown-up"] {
        #expect(
          try await harness.send(.delete, "/api/v1/devices/phone/children/\(child)" + query).status == 200)
      }
      try await harness.service.deliveries.outbox.run()
      let keys = try await harness.pool.query(
        "SELECT DISTINCT key FROM outbox WHERE destination = 'webhook' ORDER BY key")
      #expect(try keys.map { try $0.decode("key", as: String.self) } == ["ben", "grown-up", "phone"])
    }
  }

  @Test func `the indexes of events find those that name a customer`() async throws {
    try await withScreenTime { harness in
      let ways = [
        "former_device_id = 'ann'": "lifecycle_events_former_device_id_idx",
        "former_user_id = '\(UUID())'": "lifecycle_events_former_user_id_idx",
        "child_device_ids ? 'ann'": "lifecycle_events_child_device_ids_idx",
      ]
      for (condition, index) in ways {
        let plan = try await harness.pool.withTransaction { connection in
          _ = try await connection.query("SET LOCAL enable_seqscan = off")
          return try await connection.query(
            Query(unescaped: "EXPLAIN SELECT id FROM lifecycle_events WHERE \(condition)")
          ).map { try $0.decode("QUERY PLAN", as: String.self) }.joined()
        }
        #expect(plan.contains(index))
      }
    }
  }

  // MARK: A new phone

  @Test func `a device that takes the place of another in a purchase takes its children`() async throws {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 1)) { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      for child in ["ann", "ben"] {
        #expect(try await harness.pair(child, to: "phone").status == 201)
        harness.clock.advance(seconds: 1)
      }
      _ = try await harness.device("reinstalled", shows: bought)
      #expect(try await harness.children(of: "reinstalled").children == ["ann active", "ben active"])
      #expect(try await harness.childState("ann") == "active active")
      #expect(try await harness.children(of: "phone").children == [])
    }
  }

  @Test func `a device that takes the place of another in a shared purchase or trial takes its children`()
    async throws
  {
    try await withHarness(configuration: MoveLimitTests.configuration(devices: 2)) { harness in
      _ = try await harness.launch("trial-1", account: "mother")
      #expect(try await harness.pair("ann", to: "trial-1").status == 201)
      let bought = try await harness.device("phone-1", buys: ScreenTime.family)
      #expect(try await harness.pair("ben", to: "phone-1").status == 201)
      for number in 2...3 {
        harness.clock.advance(seconds: 1)
        _ = try await harness.launch("trial-\(number)", account: "mother")
        _ = try await harness.device("phone-\(number)", shows: bought)
      }
      for device in ["trial-3", "phone-3"] {
        #expect(try await harness.children(of: device).children?.count == 1, "\(device)")
      }
      let rows = try await harness.pool.query("SELECT device_id FROM devices ORDER BY device_id")
      #expect(try rows.map { try $0.decode("device_id", as: String.self) } == ["phone-3", "trial-3"])
      #expect(try await harness.childState("ann") == "trial active")
      #expect(try await harness.childState("ben") == "active active")
    }
  }

  // MARK: Odd requests

  @Test func `a device of the parent itself is no child`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      _ = try await harness.device("tablet", shows: bought)
      for _ in 0..<2 {
        for child in ["phone", "tablet"] {
          let refused = try await harness.pair(child, to: "phone")
          #expect(refused.status == 400 && refused.code == "invalid_request")
        }
      }
      #expect(try await harness.count("devices") == 0)
    }
  }

  @Test func `two phones of a parent share the places, also at once`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone-0", buys: ScreenTime.family)
      _ = try await harness.device("phone-1", shows: bought)
      let answers = try await atOnce(12) { number in
        try await harness.pair("child-\(number)", to: "phone-\(number % 2)")
      }
      #expect(answers.count { $0.status == 201 } == 5)
      #expect(answers.count { $0.code == "device_limit_reached" } == 7)
      #expect(try await harness.children(of: "phone-0").children?.count == 5)
    }
  }

  @Test func `a device that a stranger joined as a child starts its trial with a secret of its own`()
    async throws
  {
    try await withScreenTime { harness in
      try await harness.device("stranger", buys: ScreenTime.family)
      #expect(try await harness.join("victim", to: "stranger").status == 201)
      #expect(try await harness.children(of: "stranger").children == ["victim active"])
      let started = try await harness.launch("victim", account: "victim", secret: own)
      #expect(started.status == 201)
      #expect(try await harness.children(of: "stranger").children == [])
      // A proof without a secret, as old builds send, ends it too.
      #expect(try await harness.join("other", to: "stranger").status == 201)
      #expect(try await harness.launch("other", account: "other").status == 201)
    }
  }
}
