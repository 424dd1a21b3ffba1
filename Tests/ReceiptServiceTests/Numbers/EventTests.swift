import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Ledger
@testable import Numbers
@testable import ReceiptService

@Suite struct EventTests {
  private struct SentEvent {
    var name = "paywall_shown"
    var at: Date
    var id: String?
    var properties: String?

    var json: String {
      let members = [
        #""name": "\#(name)""#, #""at": "\#(RFC3339.string(from: at))""#, id.map { #""id": "\#($0)""# },
        properties.map { #""properties": \#($0)"# },
      ]
      return "{" + members.compactMap(\.self).joined(separator: ",") + "}"
    }
  }

  private func report(
    _ events: [SentEvent], of customer: String = "phone", bundleID: String = ScreenTime.bundleID,
    token: String? = nil, _ harness: Harness
  ) async throws -> Answer {
    let list = events.map(\.json).joined(separator: ",")
    return try await harness.send(
      .post, "/api/v1/events",
      json: #"{"bundleID": "\#(bundleID)", "customerID": "\#(customer)", "events": [\#(list)]}"#, token: token
    )
  }

  /// `name events customers` of a day.
  private func counted(_ day: Day, _ harness: Harness) async throws -> [String] {
    let rows = try await harness.pool.query(
      """
      SELECT name || ' ' || events || ' ' || customers AS line FROM kpi_events_daily
      WHERE day::text = \(day.description) ORDER BY name
      """)
    return try rows.map { try $0.decode("line", as: String.self) }
  }

  @Test func `new events count in the metrics by name, and a repeated one does not`() async throws {
    try await withScreenTime { harness in
      let events = ["paywall_shown", "storekit_error", "tour.done", "purchase_initiated", "paywall_shown"].map
      {
        SentEvent(name: $0, at: harness.clock.now, id: UUID().uuidString)
      }
      for _ in 0..<2 { #expect(try await report(events, harness).status == 202) }
      let scrape = try await harness.scrape()
      for (name, count) in [
        ("paywall_shown", 2.0), ("purchase_initiated", 1), ("storekit_error", 1), ("other", 1),
      ] {
        #expect(
          scrape["receiptd_events_total{app=\"\(ScreenTime.bundleID)\",name=\"\(name)\"}"] == count, "\(name)"
        )
        #expect(scrape["receiptd_events_total{app=\"\(ScreenTime.heatlab)\",name=\"\(name)\"}"] == 0)
      }
    }
  }

  @Test func `events are kept, counted by name and customer, and shown in the KPIs of the day`()
    async throws
  {
    try await withScreenTime { harness in
      let now = harness.clock.now
      let first = try await report(
        [
          SentEvent(at: now, properties: #"{"placement": "settings", "variant": 2}"#), SentEvent(at: now - 1),
          SentEvent(name: "purchase_initiated", at: now),
        ], harness)
      #expect(first.status == 202)
      #expect(first.bool("success") == true)
      #expect(first["accepted"] as? Int == 3)
      #expect(
        try await report([SentEvent(at: now), SentEvent(name: "tour.done-2", at: now)], of: "pad", harness)
          .status == 202)
      let kept = try await harness.pool.query(
        "SELECT properties ->> 'placement' AS placement FROM events WHERE properties IS NOT NULL")
      #expect(try kept.map { try $0.decode("placement", as: String.self) } == ["settings"])

      try await harness.countWhatIsDue()
      let today = Day(of: now)
      // One second earlier may be yesterday.
      let shown = try await harness.pool.query(
        """
        SELECT sum(paywall_shown)::bigint AS shown, sum(purchase_initiated)::bigint AS initiated, count(tier) AS tiers
        FROM kpi_daily
        WHERE bundle_id = \(ScreenTime.bundleID)
        """)[0]
      #expect(try shown.decode("shown", as: Int.self) == 3)
      #expect(try shown.decode("initiated", as: Int.self) == 1)
      #expect(try shown.decode("tiers", as: Int.self) == 0)
      let names = try await counted(today, harness)
      #expect(names.contains("purchase_initiated 1 1"))
      #expect(names.contains("tour.done-2 1 1"))
      #expect(names.contains { $0.hasPrefix("paywall_shown ") && $0.hasSuffix(" 2") })
    }
  }

  @Test func `an event with an id that is sent several times is counted once`() async throws {
    try await withScreenTime { harness in
      let now = harness.clock.now
      let events = (1...3).map { _ in SentEvent(at: now, id: UUID().uuidString) }
      #expect(try await report(events + [events[0]], harness)["accepted"] as? Int == 3)
      let again = try await report(events + [SentEvent(at: now)], harness)
      #expect(again.status == 202)
      #expect(again["accepted"] as? Int == 1)
      // The same id of another customer is another event.
      #expect(try await report([events[0]], of: "other", harness)["accepted"] as? Int == 1)
      #expect(try await harness.count("events") == 5)
    }
  }

  @Test func `a request with one invalid event is refused, and the error names the JSON member`() async throws
  {
    try await withScreenTime { harness in
      let now = harness.clock.now
      let good = SentEvent(at: now)
      let deep = #"{"a": {"b": {"c": {"d": {}}}}}"#
      let cases: [([SentEvent], String)] = [
        ([], "'events'"), (Array(repeating: good, count: 101), "'events'"),
        ([good, SentEvent(name: "", at: now)], "'events[1].name'"),
        ([SentEvent(name: "9lives", at: now)], "'events[0].name'"),
        ([SentEvent(name: "caf\u{E9}", at: now)], "'events[0].name'"),
        ([SentEvent(name: "a b", at: now)], "'events[0].name'"),
        ([SentEvent(name: String(repeating: "n", count: 65), at: now)], "'events[0].name'"),
        ([SentEvent(at: now, id: "-1112233-4455-6677-8899-aabbccddeeff")], "'events[0].id'"),
        ([SentEvent(at: now + 301)], "'events[0].at'"),
        ([SentEvent(at: now - 30 * 86_400 - 1)], "'events[0].at'"),
        ([good, good, SentEvent(at: now, properties: deep)], "'events[2].properties'"),
        ([SentEvent(at: now, properties: #"{"a": "\u0000"}"#)], "'events[0].properties'"),
        (
          [SentEvent(at: now, properties: #"{"a": "\#(String(repeating: "x", count: 2_050))"}"#)],
          "'events[0].properties'"
        ),
        ([SentEvent(at: now, properties: "[1]")], "properties"), ([SentEvent(at: now, id: "7")], "id"),
      ]
      for (events, member) in cases {
        let answer = try await report(events, harness)
        #expect(answer.status == 400, "\(member)")
        #expect(answer.code == "invalid_request")
        let detail = answer.string("detail") ?? ""
        #expect(detail.contains(member), "\(detail)")
      }
      for customer in ["", String(repeating: "c", count: 256)] {
        #expect(try await report([good], of: customer, harness).code == "invalid_request")
      }
      let wrongApp = try await report([good], bundleID: "com.example.unknown", harness)
      #expect(wrongApp.status == 422)
      #expect(wrongApp.code == "wrong_app")
      let long = SentEvent(at: now, properties: #"{"a": "\#(String(repeating: "x", count: 66_000))"}"#)
      #expect(try await report([long], harness).code == "payload_too_large")
      #expect(try await harness.send(.post, "/api/v1/events", json: "{").code == "invalid_json")
      #expect(try await harness.send(.post, "/api/v1/events").status == 415)
      #expect(try await harness.count("events") == 0)

      // The limits themselves are valid.
      let most =
        [SentEvent(name: String(repeating: "n", count: 64), at: now + 300), SentEvent(at: now - 30 * 86_400)]
        + [SentEvent(at: now, properties: #"{"a": {"b": {"c": [1]}}, "d": null}"#)]
        + Array(repeating: SentEvent(at: now), count: 97)
      #expect(try await report(most, harness)["accepted"] as? Int == 100)
    }
  }

  @Test func `events for another user than the token's are refused, and user ids ignore case`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let event = SentEvent(at: harness.clock.now)
      func report(_ customer: String, _ token: String?) async throws -> Answer {
        try await self.report([event], of: customer, bundleID: TestApps.climbing, token: token, harness)
      }
      #expect(try await report(user.uuidString, token).status == 202)
      #expect(try await report(user.uuidString.lowercased(), nil).status == 202)
      // An app reports events before a user signs in.
      #expect(try await report("an installation", nil).status == 202)
      let other = try await report(UUID().uuidString, token)
      #expect(other.status == 403)
      #expect(other.code == "forbidden")
      #expect(try await report(user.uuidString, "not a token").status == 401)
      let customers = try await harness.pool.query("SELECT DISTINCT customer_id FROM events ORDER BY 1")
      let names = Set(try customers.map { try $0.decode("customer_id", as: String.self) })
      #expect(names == [user.uuidString.lowercased(), "an installation"])
    }
  }

  @Test func `events change no access and only the KPI counts`() async throws {
    try await withScreenTime { harness in
      let before = try await harness.entitlements("phone")
      #expect(
        try await report([SentEvent(name: "purchase_completed", at: harness.clock.now)], harness).status
          == 202)
      let after = try await harness.entitlements("phone")
      #expect(after.body == before.body)
      for table in ["subscriptions", "trials", "outbox", "devices", "grants"] {
        #expect(try await harness.count(table) == 0, "\(table)")
      }
    }
  }

  @Test func `late events are counted on their own day, and the counts remain after the events are deleted`()
    async throws
  {
    try await withScreenTime { harness in
      try harness.becomes("03-01")
      #expect(try await report([SentEvent(at: harness.clock.now)], harness).status == 202)
      let time = harness.clock.now + 60
      try harness.becomes("03-20")
      try await harness.countWhatIsDue()
      #expect(try await counted(harness.day("03-01"), harness) == ["paywall_shown 1 1"])
      // The device was offline for three weeks.
      #expect(try await report([SentEvent(at: time)], of: "pad", harness).status == 202)
      try harness.becomes("03-21")
      try await harness.countWhatIsDue()
      #expect(try await counted(harness.day("03-01"), harness) == ["paywall_shown 2 2"])

      try harness.becomes("06-15")
      while try await harness.count("events") > 0 { try await harness.service.numbers.kpiJob.run() }
      #expect(try await counted(harness.day("03-01"), harness) == ["paywall_shown 2 2"])
      _ = try await harness.service.numbers.counter.count(harness.day("03-01"))
      #expect(try await harness.numbers("03-01", tier: nil) == ["paywall_shown": "2"])
    }
  }

  @Test func `the 200 most frequent event names have KPI rows, and the others share one`() async throws {
    try await withScreenTime { harness in
      let now = harness.clock.now
      for batch in 0..<3 {
        let events = (0..<100).map { SentEvent(name: "noise-\(batch)-\($0)", at: now) }
        #expect(try await report(events, harness).status == 202)
      }
      #expect(try await report([SentEvent(at: now)], harness).status == 202)
      try await harness.countWhatIsDue()
      let names = try await counted(Day(of: now), harness)
      #expect(names.count == 201)
      #expect(names.contains("paywall_shown 1 1"))
      #expect(names.contains("(other) 101 1"))
    }
  }

  @Test func `concurrent requests with the same events in different orders succeed and are counted once`()
    async throws
  {
    try await withScreenTime { harness in
      let now = harness.clock.now
      for round in 0..<10 {
        let events = (0..<60).map { _ in SentEvent(at: now, id: UUID().uuidString) }
        // A retry is charged to the customer's day again.
        let answers = try await atOnce(8) { number in
          try await report(
            number.isMultiple(of: 2) ? events : events.reversed(), of: "phone \(round)", harness)
        }
        #expect(answers.allSatisfy { $0.status == 202 })
        #expect(answers.reduce(0) { $0 + ($1["accepted"] as? Int ?? 0) } == 60)
      }
    }
  }
}
