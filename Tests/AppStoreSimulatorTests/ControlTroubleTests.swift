import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

/// The clock, faults and journal of the control API.
struct ControlTroubleTests {
  private struct Fixture {
    let store: SimulatedAppStore
    let sender: RecordingSender
    let client: ControlClient

    func get(_ path: String) async throws -> JSON { try decode(try await client.get(path)) }
    func delete(_ path: String) async throws -> JSON { try decode(try await client.delete(path)) }
    func post(_ path: String, _ body: JSON) async throws -> JSON {
      try decode(try await client.post(path, body))
    }
    func put(_ path: String, _ body: JSON) async throws -> JSON {
      try decode(try await client.put(path, body))
    }

    /// The status of a request that fails.
    func status(of body: () async throws -> JSON) async -> Int? {
      do {
        _ = try await body()
        return nil
      } catch {
        return (error as? ControlClient.Failure)?.status
      }
    }

    private func decode(_ bytes: [UInt8]) throws -> JSON {
      bytes.isEmpty ? .null : try JSONDecoder().decode(JSON.self, from: Data(bytes))
    }
  }

  private static func withFixture(
    outcome: SendOutcome = .answered(200), timeScale: TimeScale = .calendar, retries: Bool = false,
    _ body: (Fixture) async throws -> Void
  ) async throws {
    let sender = RecordingSender(outcome: outcome)
    let store = try SimulatedAppStore(
      apps: [Climb.app], timeScale: timeScale, webhook: "http://127.0.0.1/",
      clock: VirtualClock(startingAt: Climb.start, rate: 0), retries: retries, sender: sender)
    try await serve(store) { client in
      try await body(Fixture(store: store, sender: sender, client: client))
    }
  }

  private static func serve(
    _ store: SimulatedAppStore, _ body: (ControlClient) async throws -> Void
  ) async throws {
    let server = try await SimulatorServer(store: store)
    let client = ControlClient(base: "http://\(try server.start())")
    let result: Result<Void, any Error>
    do {
      result = .success(try await body(client))
    } catch {
      result = .failure(error)
    }
    await server.shutdown()
    try result.get()
  }

  @Test func `the control API adds random lives, sends their notifications, and sets the clock to their end`()
    async throws
  {
    try await Self.withFixture { fixture in
      let answer = try await fixture.post(
        "/control/lives", ["bundleID": .string(Climb.bundleID), "seed": 7, "count": 2])
      guard case .array(let lives)? = answer["lives"] else {
        Issue.record("no lives")
        return
      }
      #expect(lives.map { $0["seed"]?.number } == [7, 8])
      let sent = lives.reduce(0) { $0 + ($1["notifications"]?.number ?? 0) }
      #expect(sent > 0)
      #expect(Int64(fixture.sender.payloads.count) == sent)
      let clock = try await fixture.get("/control/clock")
      #expect(clock["now"] == answer["now"])
      #expect(clock["now"]?.string != "2026-01-01T00:00:00Z")
      for life in lives {
        guard case .array(let purchases)? = life["purchases"] else { continue }
        #expect(!purchases.isEmpty)
        for case .string(let id) in purchases { #expect(fixture.store.truth(of: id) != nil) }
      }
      let none = await fixture.status {
        try await fixture.post("/control/lives", ["bundleID": "com.example.none", "seed": 1])
      }
      #expect(none == 404)
      let many = await fixture.status {
        try await fixture.post(
          "/control/lives", ["bundleID": .string(Climb.bundleID), "seed": 1, "count": 101])
      }
      #expect(many == 400)
    }
  }

  @Test func `the control API reads the clock, sets it forward and changes its rate`() async throws {
    try await Self.withFixture { fixture in
      let clock = try await fixture.get("/control/clock")
      #expect(clock == ["now": "2026-01-01T00:00:00Z", "rate": 0])
      let changes: [(JSON, String)] = [
        (["advance": "P1DT12H"], "2026-01-02T12:00:00Z"), (["advanceSeconds": 90], "2026-01-02T12:01:30Z"),
        (["now": "2026-02-01T00:00:00Z"], "2026-02-01T00:00:00Z"),
        (["now": "2026-03-01T00:00:00Z", "advance": "P1M"], "2026-04-01T00:00:00Z"),
      ]
      for (change, expected) in changes {
        let wound = try await fixture.post("/control/clock", change)
        #expect(wound["now"]?.string == expected)
      }
      let running = try await fixture.post("/control/clock", ["rate": 3600])
      #expect(running["rate"]?.number == 3600)
      #expect(fixture.store.virtualClock?.rate == 3600)
      for (change, expected) in [
        (["now": "2026-01-01T00:00:00Z"] as JSON, 409), (["advanceSeconds": -1], 409), (["rate": -1], 409),
        (["advance": "P1"], 400), (["now": "later"], 400),
      ] {
        let status = await fixture.status { try await fixture.post("/control/clock", change) }
        #expect(status == expected, "\(change)")
      }
    }
  }

  @Test func `the control API cannot set a clock that the store's creator provided`() async throws {
    let store = try SimulatedAppStore(clock: { Climb.start })
    try await Self.serve(store) { client in
      let failure = await #expect(throws: ControlClient.Failure.self) {
        try await client.get("/control/clock")
      }
      #expect(failure?.status == 409)
    }
  }

  @Test func `a request that sets the clock sends due notifications before its response`() async throws {
    try await Self.withFixture(
      outcome: .answered(503), timeScale: TimeScale(monthSeconds: 720), retries: true
    ) { fixture in
      let sent = try await fixture.post("/control/test", ["bundleID": .string(Climb.bundleID)])
      #expect(sent["nextAttempt"]?.string == "2026-01-01T00:00:01Z")
      let uuid = try #require(sent["uuid"]?.string)
      for attempts in 2...3 {
        _ = try await fixture.post("/control/clock", ["advance": "P1D"])
        #expect(fixture.store.notification(uuid)?.attempts.count == attempts)
      }
      _ = try await fixture.post("/control/webhook", ["url": "http://127.0.0.1/", "retries": false])
      _ = try await fixture.post("/control/clock", ["advance": "P1D"])
      #expect(fixture.store.notification(uuid)?.attempts.count == 4)
      #expect(fixture.store.nextAttempt(of: uuid) == nil)
    }
  }

  @Test func `the control API adds, shows and removes faults, and refuses invalid ones`() async throws {
    try await Self.withFixture { fixture in
      let none: JSON = [
        "api": [], "delivery": ["delay": 0, "duplicates": 0, "lose": 0, "loss": 0, "reorder": 0],
      ]
      #expect(try await fixture.get("/control/faults") == none)
      let fault: JSON = ["fault": "error", "code": 4_290_000, "retryAfter": 2, "endpoint": "statuses"]
      let one = try await fixture.post("/control/faults/api", fault)
      #expect(one["api"] == [fault])
      #expect(fixture.store.serverFaults == [.rateLimit(retryAfter: 2).at(.statuses)])
      let two = try await fixture.put("/control/faults/delivery", ["reorder": 3])
      #expect(two["delivery"]?["reorder"]?.number == 3)
      for _ in 0..<2 {
        let held = try await fixture.post("/control/test", ["bundleID": .string(Climb.bundleID)])
        #expect(held["attempts"]?.number == 0)
      }
      _ = try await fixture.post("/control/faults/delivery/release", [:])
      #expect(fixture.sender.payloads.count == 2)
      let held = try await fixture.post("/control/test", ["bundleID": .string(Climb.bundleID)])
      // A notification sent by its uuid is not held.
      let uuid = try #require(held["uuid"]?.string)
      let sent = try await fixture.post("/control/notifications/\(uuid)/send", [:])
      #expect(sent["attempts"]?.number == 1)
      #expect(try await fixture.delete("/control/faults") == none)
      for bad in [
        ["fault": "error"] as JSON, ["fault": "fire"], ["fault": "slow", "delay": 101],
        ["fault": "close", "requests": 0], ["fault": "close", "probability": 2],
        ["fault": "close", "endpoint": "elsewhere"],
      ] {
        let status = await fixture.status { try await fixture.post("/control/faults/api", bad) }
        #expect(status == 400, "\(bad)")
      }
      for bad in [["loss": 2] as JSON, ["lose": -1], ["delay": -1], ["reorder": 100_000]] {
        let status = await fixture.status { try await fixture.put("/control/faults/delivery", bad) }
        #expect(status == 400, "\(bad)")
      }
      #expect(fixture.store.serverFaults.isEmpty)
    }
  }

  @Test func `the control API shows requests, consumption reports and orders`() async throws {
    try await Self.withFixture { fixture in
      let bought = try await fixture.post(
        "/control/purchases",
        ["bundleID": .string(Climb.bundleID), "productID": .string(Climb.coins)])
      let order = try #require(bought["orderID"]?.string)
      let id = try #require(bought["transactionID"]?.string)
      #expect(OrderID(order)?.transactionID == id)
      fixture.store.keep(
        ConsumptionReport(
          at: Climb.start, bundleID: Climb.bundleID, environment: .production, transactionID: id,
          body: ["customerConsented": .bool(true)]))
      let reports = try await fixture.get("/control/consumption?transactionID=\(id)")
      #expect(reports["reports"]?[0]?["body"] == ["customerConsented": true])
      #expect(reports["reports"]?[0]?["at"]?.string == "2026-01-01T00:00:00Z")
      #expect(try await fixture.get("/control/consumption?transactionID=1") == ["reports": []])

      for path in ["/inApps/v1/transactions/\(id)", "/sandbox/inApps/v1/lookup/\(order)"] {
        let failure = await #expect(throws: ControlClient.Failure.self) { try await fixture.client.get(path) }
        #expect(failure?.status == 401)
      }
      let requests = try await fixture.get("/control/requests")
      #expect(requests["requests"]?.array?.count == 2)
      let lookups = try await fixture.get("/control/requests?endpoint=orderLookup")
      let lookup = try #require(lookups["requests"]?[0])
      #expect(lookups["requests"]?.array?.count == 1)
      #expect(lookup["environment"]?.string == "Sandbox")
      #expect(lookup["status"]?.number == 401)
      #expect(lookup["path"]?.string == "/inApps/v1/lookup/\(order)")
      #expect(lookup["at"]?.number != nil)
      _ = try await fixture.delete("/control/requests")
      #expect(try await fixture.get("/control/requests") == ["requests": []])
    }
  }
}
