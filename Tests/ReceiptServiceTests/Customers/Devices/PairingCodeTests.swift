import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Platform
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Requests

/// The code with which a child joins its parent: its form, its end, how many, and who guesses.
@Suite struct PairingCodeTests {
  @Test func `a code is used once, within ten minutes, in its app, by another device`() async throws {
    try await withScreenTime { harness in
      try await harness.device("mother", buys: ScreenTime.family)
      let code = try await harness.code(of: "mother")
      #expect(code.status == 201)
      #expect(code.date("expiresAt") == harness.clock.now + 600)
      let text = try #require(code.string("code"))
      #expect(text.wholeMatch(of: /[2-9A-HJKMNP-Z]{4}-[2-9A-HJKMNP-Z]{4}/) != nil)
      let own = try await harness.enter(text, on: "mother")
      #expect(own.status == 400)
      let other = try await harness.enter(text, on: "ann", app: ScreenTime.heatlab)
      #expect(other.status == 404 && other.code == "pairing_code_invalid")
      // As a person types it.
      let typed = text.lowercased().replacing("-", with: " ")
      let joined = try await harness.enter(typed, on: "ann")
      #expect(joined.status == 201)
      #expect(joined.string("pairing.state") == "active")
      #expect(joined.string("pairing.role") == "child")
      #expect(joined.isNull("pairing.reason"))
      for again in ["ann", "ben"] {
        #expect(try await harness.enter(text, on: again).code == "pairing_code_invalid")
      }
      let late = try #require(try await harness.code(of: "mother").string("code"))
      harness.clock.advance(seconds: 600)
      let expired = try await harness.enter(late, on: "ben")
      #expect(expired.status == 410 && expired.code == "pairing_code_expired")
      for wrong in ["", "7KQ4", "0000-0000", "7KQ4-M2XD-7KQ4"] {
        #expect(try await harness.enter(wrong, on: "ben").code == "pairing_code_invalid")
      }
      let rows = try await harness.pool.query("SELECT encode(code_hash, 'escape') AS text FROM pairing_codes")
      for row in rows { #expect(try row.decode("text", as: String.self) != text) }
    }
  }

  @Test func `a child joins with its own secret alone, and cannot end the pairing`() async throws {
    try await withScreenTime { harness in
      try await harness.device("mother", buys: ScreenTime.family)
      let code = try #require(try await harness.code(of: "mother").string("code"))
      let without = try await harness.enter(code, on: "ann", secret: nil)
      #expect(without.status == 401)
      #expect(try await harness.enter(code, on: "ann").status == 201)
      let removed = try await harness.send(
        .delete, "/api/v1/devices/ann/parent?bundleID=\(ScreenTime.bundleID)",
        secret: Harness.secret(of: "ann"))
      #expect(removed.status == 405)
      // Another device cannot ask in its name.
      #expect(try await harness.parent(of: "ann", secret: Harness.secret(of: "ben")).status == 401)
      #expect(
        try await harness.parent(of: "ann", secret: Harness.secret(of: "ann")).string("pairing.state")
          == "active")
      let none = try await harness.parent(of: "ben", secret: Harness.secret(of: "ben"))
      #expect(none.status == 200 && none["pairing"] == nil)
    }
  }

  @Test func `five codes of a parent are open at most`() async throws {
    try await withScreenTime { harness in
      try await harness.device("mother", buys: ScreenTime.family)
      var codes: [String] = []
      for _ in 0..<6 {
        codes.append(try #require(try await harness.code(of: "mother").string("code")))
        harness.clock.advance(seconds: 1)
      }
      #expect(try await harness.enter(codes[0], on: "ann").code == "pairing_code_invalid")
      for (index, code) in codes.dropFirst().enumerated() {
        #expect(try await harness.enter(code, on: "child-\(index)").status == 201)
      }
    }
  }

  @Test func `of two children one gets the last place, and the other's code stays open`() async throws {
    try await withScreenTime { harness in
      try await harness.device("mother", buys: ScreenTime.individual)
      var codes: [String] = []
      for _ in 0..<4 { codes.append(try #require(try await harness.code(of: "mother").string("code"))) }
      let all = codes
      let answers = try await atOnce(4) { number in
        try await harness.enter(all[number - 1], on: "child-\(number)")
      }
      #expect(answers.count { $0.status == 201 } == 1)
      #expect(answers.count { $0.code == "device_limit_reached" } == 3)
      #expect(try await harness.count("devices") == 1)
      #expect(try await harness.count("pairing_codes WHERE used_at IS NULL") == 3)
    }
  }

  @Test func `codes that one address sends at once are counted before they are looked up`() async throws {
    try await withHarness(configuration: ScreenTime.configuration(), environment: ["RATE_LIMIT": "1000"]) {
      harness in
      try await harness.device("mother", buys: ScreenTime.family)
      // A right code uses up nothing.
      for _ in 0..<15 {
        #expect([200, 201].contains(try await harness.join("ann", to: "mother").status))
      }
      let answers = try await atOnce(60) { _ in try await harness.enter(PairingCode().shown, on: "thief") }
      #expect(answers.count { $0.status == 404 } == 10)
      #expect(answers.count { $0.status == 429 } == 50)
    }
  }

  @Test func `many guesses of one address are refused`() async throws {
    try await withHarness(configuration: ScreenTime.configuration(), environment: ["RATE_LIMIT": "1000"]) {
      harness in
      var statuses: [Int] = []
      for _ in 0..<60 {
        statuses.append(try await harness.enter(PairingCode().shown, on: "thief").status)
      }
      #expect(statuses.first == 404)
      #expect(statuses.last == 429)
      #expect(!statuses.contains { $0 == 201 })
    }
  }

  @Test func `guesses from many addresses are refused at a million a day, for their app alone`() async throws
  {
    try await withHarness(configuration: ScreenTime.configuration(), environment: ["RATE_LIMIT": "1000"]) {
      harness in
      try await harness.device("mother", buys: ScreenTime.family)
      let code = try #require(try await harness.code(of: "mother").string("code"))
      let rateLimits = harness.service.rateLimits
      func request(_ number: Int) -> Request {
        let address = "10.\(number >> 16).\(number >> 8 & 255).\(number & 255)"
        return Request(method: .put, path: "/", clientAddress: IPAddress(address))
      }
      for number in 0..<ClientRateLimits.wrongCodesAtOnce {
        try rateLimits.beginCode(of: ScreenTime.bundleID, request(number))
      }
      // A right code is refused too, until the app's bucket has a request again.
      #expect(try await harness.enter(code, on: "ann").status == 429)
      try rateLimits.beginCode(of: ScreenTime.heatlab, request(0))
      harness.clock.advance(seconds: 60)
      #expect(try await harness.enter(code, on: "ann").status == 201)
    }
  }
}
