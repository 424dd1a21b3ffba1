import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing
import Text

@testable import ReceiptService

/// The row of an app's day, which all clients of the app charge.
@Suite(.timeLimit(.minutes(10))) struct DayChargeTests {
  private static func post(of customer: String, _ harness: Harness) async throws -> Answer {
    let event = #"{"name": "paywall_shown", "at": "\#(RFC3339.string(from: harness.clock.now))"}"#
    return try await harness.send(
      .post, "/api/v1/events",
      json: #"{"bundleID": "\#(ScreenTime.bundleID)", "customerID": "\#(customer)", "events": [\#(event)]}"#)
  }

  private static func charges(_ harness: Harness) async throws -> Int {
    try await harness.pool.query("SELECT sum(device_secrets)::bigint AS sum FROM event_bytes_daily")[0]
      .decode("sum")
  }

  @Test func `while the row of the day is locked, what charges it gets 503, and other requests are answered`()
    async throws
  {
    try await withScreenTime { harness in
      #expect(try await Self.post(of: "phone-0", harness).status == 202)
      let (blocked, other) = try await harness.pool.withTransaction { connection in
        _ = try await connection.query("SELECT FROM event_bytes_daily FOR UPDATE")
        async let blocked = atOnce(40) { number in
          if number % 2 == 0 { return try await Self.post(of: "phone-\(number)", harness) }
          return try await harness.children(of: "phone-\(number)", secret: ScreenTime.secret(UInt8(number)))
        }
        let other = try await harness.launch("tablet", account: "b")
        return (try await blocked, other)
      }
      #expect(other.status == 201)
      #expect(blocked.map(\.status) == Array(repeating: 503, count: 40))
      #expect(blocked.allSatisfy { $0.code == "database_unavailable" })
      #expect(try await Self.charges(harness) == 0)
      #expect(try await harness.children(of: "phone-1", secret: ScreenTime.secret(1)).status == 200)
      #expect(try await harness.children(of: "phone-1").status == 401)
      #expect(try await Self.charges(harness) == 1)
    }
  }
}
