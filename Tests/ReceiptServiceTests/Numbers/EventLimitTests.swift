import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Numbers
@testable import ReceiptService

/// The limits of the disk space that unproven events can take.
@Suite struct EventLimitTests {
  private static let limit = 20_000

  /// The two apps; the one with devices has a low daily limit.
  private static let configuration = TestApps.json.replacing(
    #""bundleID": "com.example.family","#,
    with: #""bundleID": "com.example.family", "eventBytesPerDay": \#(limit),"#)

  /// The body of a request with some 1,500 bytes of properties.
  private static func report(
    of customer: String = "phone", bundleID: String = TestApps.family, at instant: Date, length: Int = 1_500
  ) -> String {
    #"{"bundleID": "\#(bundleID)", "customerID": "\#(customer)", "events": [{"name": "paywall_shown", "#
      + #""at": "\#(RFC3339.string(from: instant))", "#
      + #""properties": {"text": "\#(String(repeating: "x", count: length))"}}]}"#
  }

  private static func post(_ json: String, token: String? = nil, _ harness: Harness) async throws -> Answer {
    try await harness.send(.post, "/api/v1/events", json: json, token: token)
  }

  /// The bytes charged to an app, and the size of its events without their index entries.
  private static func bytes(of bundleID: String, _ harness: Harness) async throws -> (charged: Int, kept: Int)
  {
    let row = try await harness.pool.query(
      """
      SELECT (SELECT coalesce(sum(bytes), 0)::bigint FROM event_bytes_daily WHERE bundle_id = \(bundleID)) AS charged,
        (SELECT coalesce(sum(pg_column_size(events)), 0) FROM events WHERE bundle_id = \(bundleID)) AS kept
      """)[0]
    return (try row.decode("charged"), try row.decode("kept"))
  }

  @Test func `events of 300 requests without a token use no more than 3 MB`() async throws {
    try await withHarness { harness in
      let text = String(repeating: "x", count: 1_900)
      let event =
        #"{"name": "a", "at": "\#(RFC3339.string(from: harness.clock.now))", "properties": {"a": "\#(text)"}}"#
      let events = Array(repeating: event, count: 30).joined(separator: ",")
      for number in 1...300 {
        _ = try await Self.post(
          #"{"bundleID": "\#(TestApps.family)", "customerID": "\#(number)", "events": [\#(events)]}"#, harness
        )
      }
      #expect(try await Self.bytes(of: TestApps.family, harness).kept <= 3_000_000)
    }
  }

  /// A number of six bytes that an export writes with 309 digits.
  @Test func `properties that are longer as text than on the disk are charged as text`() async throws {
    try await withHarness { harness in
      let numbers = Array(repeating: "1e308", count: 200).joined(separator: ", ")
      let event =
        #"{"name": "a", "at": "\#(RFC3339.string(from: harness.clock.now))", "properties": {"a": [\#(numbers)]}}"#
      let answer = try await Self.post(
        #"{"bundleID": "\#(TestApps.family)", "customerID": "phone", "events": [\#(event)]}"#, harness)
      #expect(answer.status == 202, "\(answer)")
      #expect(try await Self.bytes(of: TestApps.family, harness).charged > 60_000)
    }
  }

  @Test func `an app's events of one UTC day stay within its limit, over all servers`()
    async throws
  {
    try await withHarness(configuration: Self.configuration) { harness in
      harness.clock.set(Day(of: harness.clock.now).advanced(by: 1).start + 20 * 3600)
      let now = harness.clock.now
      let other = try await harness.service(configuration: Self.configuration)
      func postToOther() async throws -> Int {
        let request = Request(
          method: .post, path: "/api/v1/events", headers: [.contentType: "application/json"],
          body: Array(Self.report(at: now).utf8))
        do {
          return try await other.numbers.events.respond(to: request).status.code
        } catch let problem as Problem {
          return problem.status.code
        }
      }
      var statuses: [Int] = []
      var refusedHere = 0
      for _ in 1...10 {
        let here = try await Self.post(Self.report(at: now), harness).status
        if here == 429 { refusedHere += 1 }
        statuses += [here, try await postToOther()]
      }
      await other.close()
      let taken = statuses.count { $0 == 202 }
      #expect((8...12).contains(taken))
      #expect(statuses == Array(repeating: 202, count: taken) + Array(repeating: 429, count: 20 - taken))
      #expect(try await harness.count("events") == taken)
      let bytes = try await Self.bytes(of: TestApps.family, harness)
      #expect(bytes.charged <= Self.limit && bytes.charged > Self.limit - 2_000)
      #expect(bytes.kept <= bytes.charged)

      let refused = try await Self.post(Self.report(at: now), harness)
      #expect(refused.code == "rate_limited")
      #expect(refused.headers[.retryAfter] == "3600")
      // A smaller event is accepted, and another app has its own limit.
      #expect(try await Self.post(Self.report(at: now, length: 1), harness).status == 202)
      #expect(try await Self.post(Self.report(bundleID: TestApps.climbing, at: now), harness).status == 202)
      let scrape = try await harness.scrape()
      #expect(scrape[#"receiptd_events_refused_total{app="\#(TestApps.family)"}"#] == Double(refusedHere + 1))
      #expect(scrape[#"receiptd_events_refused_total{app="\#(TestApps.climbing)"}"#] == 0)

      harness.clock.set(Day(of: now).end - 1)
      #expect(try await Self.post(Self.report(at: now), harness).headers[.retryAfter] == "1")
      harness.clock.advance(seconds: 1)
      #expect(try await Self.post(Self.report(at: now), harness).status == 202)
    }
  }

  @Test func `concurrent requests do not exceed the daily limit of events`() async throws {
    try await withHarness(configuration: Self.configuration) { harness in
      let now = harness.clock.now
      let answers = try await atOnce(60) { try await Self.post(Self.report(of: "\($0)", at: now), harness) }
      let taken = answers.count { $0.status == 202 }
      #expect((8...12).contains(taken))
      #expect(answers.count { $0.status == 429 } == 60 - taken)
      #expect(try await harness.count("events") == taken)
      #expect(try await Self.bytes(of: TestApps.family, harness).charged <= Self.limit)
    }
  }

  /// Charges events of a customer to the current day.
  private static func charge(
    _ bytes: Int, to customer: String, bundleID: String = TestApps.family, _ harness: Harness
  ) async throws {
    _ = try await harness.pool.query(
      """
      INSERT INTO customer_event_bytes (day, bundle_id, customer_digest, bytes)
      VALUES (\(Day(of: harness.clock.now).description)::text::date, \(bundleID),
        sha256(convert_to(\(customer)::text, 'UTF8')), \(bytes))
      """)
  }

  @Test func `events in one customer's name stay within the customer's day, and those of others are kept`()
    async throws
  {
    try await withHarness { harness in
      harness.clock.set(Day(of: harness.clock.now).advanced(by: 1).start + 20 * 3600)
      let now = harness.clock.now
      var answers: [Answer] = []
      while answers.count < 300, answers.last?.status ?? 202 == 202 {
        answers.append(try await Self.post(Self.report(of: "victim", at: now, length: 1_900), harness))
      }
      let taken = answers.count - 1
      #expect((100...130).contains(taken))
      #expect(answers.last?.status == 429)
      #expect(answers.last?.code == "rate_limited")
      #expect(answers.last?.headers[.retryAfter] == "3600")
      #expect(try await harness.count("events") == taken)
      let charged = try await Self.bytes(of: TestApps.family, harness).charged
      #expect(charged <= EventRows.bytesPerCustomer && charged > EventRows.bytesPerCustomer - 3_000)
      // A refused request takes nothing from the app's day, and does not warn the operator.
      #expect(try await Self.post(Self.report(of: "victim", at: now, length: 1_900), harness).status == 429)
      #expect(try await Self.bytes(of: TestApps.family, harness).charged == charged)
      let refused = try await harness.scrape()[#"receiptd_events_refused_total{app="\#(TestApps.family)"}"#]
      #expect(refused == 0)
      #expect(try await Self.post(Self.report(of: "other", at: now), harness).status == 202)
      harness.clock.advance(days: 1)
      let tomorrow = Self.report(of: "victim", at: harness.clock.now)
      #expect(try await Self.post(tomorrow, harness).status == 202)
      #expect(try await harness.count("customer_event_bytes") == 3)
      harness.clock.advance(days: 1)
      _ = try await harness.service.numbers.counter.deleteOldEvents()
      #expect(try await harness.count("customer_event_bytes") == 1)
    }
  }

  @Test func `concurrent requests do not exceed a customer's day`() async throws {
    try await withHarness { harness in
      let now = harness.clock.now
      try await Self.charge(EventRows.bytesPerCustomer - Self.limit, to: "victim", harness)
      let answers = try await atOnce(60) { _ in
        try await Self.post(Self.report(of: "victim", at: now), harness)
      }
      let taken = answers.count { $0.status == 202 }
      #expect((8...12).contains(taken))
      #expect(answers.count { $0.status == 429 } == 60 - taken)
      #expect(try await harness.count("events") == taken)
    }
  }

  @Test func `a quarter of a user's day is for events with the user's token`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let id = user.uuidString
      try await Self.charge(
        EventRows.bytesPerCustomer / 4 * 3, to: id.lowercased(), bundleID: TestApps.climbing, harness)
      let json = Self.report(of: id, bundleID: TestApps.climbing, at: harness.clock.now)
      #expect(try await Self.post(json, harness).status == 429)
      let token = try await harness.token(for: user)
      #expect(try await Self.post(json, token: token, harness).status == 202)
    }
  }

  @Test func `a request of events that is larger than the daily limit is refused`() async throws {
    let configuration = Self.configuration.replacing("\(Self.limit)", with: "1000")
    try await withHarness(configuration: configuration) { harness in
      let answer = try await Self.post(Self.report(at: harness.clock.now), harness)
      #expect(answer.status == 429)
      #expect(try await harness.count("events") == 0)
      #expect(try await harness.count("event_bytes_daily") == 0)
    }
  }

  @Test func `a caller without a token can post events of 8 KiB, and a user with a token of 64 KiB`()
    async throws
  {
    try await withHarness { harness in
      let now = harness.clock.now
      func body(_ bundleID: String, _ customer: String, length: Int) -> String {
        let json = Self.report(of: customer, bundleID: bundleID, at: now)
        return json + String(repeating: " ", count: length - json.utf8.count)
      }
      let user = UUID()
      let token = try await harness.token(for: user)
      for (bundleID, customer, token, limit) in [
        (TestApps.climbing, user.uuidString, nil, 8_192), (TestApps.family, "phone", nil, 8_192),
        (TestApps.family, "phone", token, 8_192), (TestApps.climbing, user.uuidString, token, 65_536),
      ] {
        let most = try await Self.post(body(bundleID, customer, length: limit), token: token, harness)
        #expect(most.status == 202, "\(bundleID), \(limit)")
        let more = try await Self.post(body(bundleID, customer, length: limit + 1), token: token, harness)
        #expect(more.status == 413, "\(bundleID), \(limit)")
        #expect(more.code == "payload_too_large")
      }
      let forged = body(TestApps.climbing, user.uuidString, length: 60_000)
      #expect(try await Self.post(forged, token: "not a token", harness).status == 401)
    }
  }

  @Test func `an address can post events at a fifth of the rate of other requests`() async throws {
    try await withHarness(environment: ["RATE_LIMIT": "20"]) { harness in
      let json = Self.report(at: harness.clock.now)
      for _ in 1...8 { #expect(try await Self.post(json, harness).status == 202) }
      let refused = try await Self.post(json, harness)
      #expect(refused.code == "rate_limited")
      #expect(refused.headers[.retryAfter] == "1")
      let path = "/api/v1/devices/phone/entitlements?bundleID=\(TestApps.family)"
      #expect(try await harness.send(.get, path).status == 200)
      harness.clock.advance(seconds: 0.3)
      #expect(try await Self.post(json, harness).status == 202)
      #expect(try await Self.post(json, harness).status == 429)
    }
  }

  @Test func `the byte counts of a day are deleted with its events`() async throws {
    try await withHarness { harness in
      let json = Self.report(at: harness.clock.now)
      #expect(try await Self.post(json, harness).status == 202)
      harness.clock.advance(days: 90)
      _ = try await harness.service.numbers.counter.deleteOldEvents()
      #expect(try await harness.count("event_bytes_daily") == 1)
      harness.clock.advance(days: 1)
      _ = try await harness.service.numbers.counter.deleteOldEvents()
      #expect(try await harness.count("event_bytes_daily") == 0)
      #expect(try await harness.count("events") == 0)
    }
  }
}
