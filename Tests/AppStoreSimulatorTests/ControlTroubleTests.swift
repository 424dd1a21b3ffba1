import AppStore
import Foundation
import HTTPTypes
import Testing

@testable import AppStoreSimulator

/// The clock and the faults of the control API.
struct ControlTroubleTests {
  private struct Fixture {
    let store: SimulatedAppStore
    let sender: RecordingSender
    let client: ControlClient

    func get(_ path: String) async throws -> JSON { try await client.call(.get, path) }
    func delete(_ path: String) async throws -> JSON { try await client.call(.delete, path) }
    func post(_ path: String, _ body: JSON) async throws -> JSON { try await client.call(.post, path, body) }
    func put(_ path: String, _ body: JSON) async throws -> JSON { try await client.call(.put, path, body) }

    /// The status of a request that fails.
    func status(of body: () async throws -> JSON) async -> Int? {
      do {
        _ = try await body()
        return nil
      } catch {
        return (error as? ControlClient.Failure)?.status
      }
    }
  }

  private static func withFixture(
    outcome: SendOutcome = .answered(200), timeScale: TimeScale = .calendar, retries: Bool = false,
    _ body: (Fixture) async throws -> Void
  ) async throws {
    let sender = RecordingSender(outcome: outcome)
    let store = try SimulatedAppStore(
      apps: [Climb.app], timeScale: timeScale, webhook: "http://127.0.0.1/",
      clock: VirtualClock { Climb.start }, retries: retries, sender: sender)
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

  @Test func `random lives are added, their notifications are sent, and the clock is at their end`()
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

  @Test func `the clock is read and set forward`() async throws {
    try await Self.withFixture { fixture in
      let clock = try await fixture.get("/control/clock")
      #expect(clock == ["now": "2026-01-01T00:00:00Z"])
      let changes: [(JSON, String)] = [
        (["advance": "P1D"], "2026-01-02T00:00:00Z"),
        (["now": "2026-02-01T00:00:00Z"], "2026-02-01T00:00:00Z"),
        (["now": "2026-03-01T00:00:00Z", "advance": "P1M"], "2026-04-01T00:00:00Z"),
      ]
      for (change, expected) in changes {
        let wound = try await fixture.post("/control/clock", change)
        #expect(wound["now"]?.string == expected)
      }
      for (change, expected) in [
        (["now": "2026-01-01T00:00:00Z"] as JSON, 409), (["advance": "P1"], 400), (["now": "later"], 400),
      ] {
        let status = await fixture.status { try await fixture.post("/control/clock", change) }
        #expect(status == expected, "\(change)")
      }
    }
  }

  @Test func `setting the clock sends due notifications before the response`() async throws {
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
      #expect(fixture.store.notification(uuid)?.nextAttempt == nil)
    }
  }

  @Test func `faults are added, shown and removed`() async throws {
    try await Self.withFixture { fixture in
      let none: JSON = ["api": [], "delivery": [:]]
      #expect(try await fixture.get("/control/faults") == none)
      let fault: JSON = ["fault": "error", "code": 4_290_000, "retryAfter": 2, "endpoint": "statuses"]
      let one = try await fixture.post("/control/faults/api", fault)
      #expect(one["api"] == [fault])
      #expect(fixture.store.serverFaults == [.rateLimit(retryAfter: 2).at(.statuses)])
      let two = try await fixture.put("/control/faults/delivery", ["reorder": 3])
      #expect(two["delivery"]?["reorder"]?.number == 3)
      for _ in 0..<2 {
        let held = try await fixture.post("/control/test", ["bundleID": .string(Climb.bundleID)])
        #expect(held["attempts"] == [])
      }
      let released = try await fixture.put("/control/faults/delivery", [:])
      #expect(released["delivery"] == [:])
      #expect(fixture.sender.payloads.count == 2)
      _ = try await fixture.put("/control/faults/delivery", ["reorder": 3])
      let held = try await fixture.post("/control/test", ["bundleID": .string(Climb.bundleID)])
      // A notification sent by its uuid is not held.
      let uuid = try #require(held["uuid"]?.string)
      let sent = try await fixture.post("/control/notifications/\(uuid)/send", [:])
      #expect(sent["attempts"]?.array?.count == 1)
      _ = try await fixture.put("/control/faults/delivery", [:])
      #expect(try await fixture.delete("/control/faults/api") == none)
      for bad in [
        ["fault": "error"] as JSON, ["fault": "fire"], ["fault": "slow", "delay": 101],
        ["fault": "close", "endpoint": "elsewhere"],
      ] {
        let status = await fixture.status { try await fixture.post("/control/faults/api", bad) }
        #expect(status == 400, "\(bad)")
      }
      #expect(fixture.store.serverFaults.isEmpty)
    }
  }

  @Test func `consumption and orders are shown`() async throws {
    try await Self.withFixture { fixture in
      let bought = try await fixture.post(
        "/control/purchases",
        ["bundleID": .string(Climb.bundleID), "productID": .string(Climb.coins)])
      let order = try #require(bought["orderID"]?.string)
      let id = try #require(bought["transactionID"]?.string)
      #expect(OrderID(order)?.transactionID == id)
      fixture.store.keep(
        ConsumptionReport(
          transactionID: id,
          body: ConsumptionRequest(
            customerConsented: true, deliveryStatus: .delivered, sampleContentProvided: false)))
      let report = try await fixture.get("/control/consumption")["reports"]?[0]
      #expect(report?["transactionID"]?.string == id)
      #expect(
        report?["body"] == [
          "customerConsented": true, "deliveryStatus": "DELIVERED", "sampleContentProvided": false,
        ])
    }
  }

  @Test(arguments: ["/inApps/v1/transactions/1", "/sandbox/inApps/v1/lookup/M1"])
  func `the App Store Server API needs a token`(path: String) async throws {
    try await Self.withFixture { fixture in
      let status = await fixture.status { try await fixture.get(path) }
      #expect(status == 401)
    }
  }
}

extension ControlClient {
  /// Sends a request and decodes the answer.
  func call(_ method: HTTPRequest.Method, _ path: String, _ body: JSON? = nil) async throws -> JSON {
    let answer = try await send(method, path, json: body.map { try JSONEncoder().encode($0) })
    return try JSONDecoder().decode(JSON.self, from: Data(answer))
  }
}
