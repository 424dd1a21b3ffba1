import AppStore
import AppStoreSimulator
import Configuration
import Curl
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService
@testable import Requests

/// Rate limits over HTTP, with a clock that the test sets.
@Suite(.timeLimit(.minutes(10))) struct ClientRateLimitTests {
  private static let limited = ["RATE_LIMIT": "2", "TRUSTED_PROXIES": "127.0.0.0/8"]

  @Test func `an address beyond its rate gets Retry-After, and other addresses are not affected`()
    async throws
  {
    try await withHarness(environment: Self.limited) { harness in
      let path = "/api/v1/profiles/\(UUID().uuidString)/premium"
      // Two requests a second, with a burst of two seconds.
      for _ in 0..<4 { #expect(try await harness.ask(path, from: "203.0.113.1").status == 401) }
      let refused = try await harness.ask(path, from: "203.0.113.1")
      #expect(refused.status == 429)
      #expect(refused.code == "rate_limited")
      #expect(refused.headers[.retryAfter] == "1")
      #expect(refused.bool("success") == false)
      #expect(try await harness.ask(path, from: "203.0.113.2").status == 401)
      #expect(try await harness.ask("/healthz", from: "203.0.113.1", to: harness.adminAddress).status == 200)
      harness.clock.advance(seconds: 0.5)
      #expect(try await harness.ask(path, from: "203.0.113.1").status == 401)
      #expect(try await harness.ask(path, from: "203.0.113.1").status == 429)
    }
  }

  @Test func `requests to every client route count toward the rate of their address`() async throws {
    try await withHarness(environment: Self.limited) { harness in
      let free: Set = ["/api/v1/subscriptions/webhook", "/.well-known/jwks.json", "/openapi.yaml"]
      let routes = harness.service.clientRouter.routes.filter { !free.contains($0.pattern) }
      #expect(routes.count == 13)
      for (number, route) in routes.enumerated() {
        let path = route.pattern.replacing("{userID}", with: UUID().uuidString)
          .replacing("{deviceID}", with: "device-\(number)").replacing("{childDeviceID}", with: "child")
        let address = "203.0.113.\(number)"
        // Events have a lower rate of their own.
        let burst = path == "/api/v1/events" ? 2 : 4
        var statuses: [Int] = []
        for _ in 0..<5 {
          statuses.append(try await harness.ask(path, from: address, by: route.method).status)
        }
        #expect(statuses.map { $0 == 429 } == (0..<5).map { $0 >= burst }, "\(path)")
      }
    }
  }

  @Test func `all addresses of an IPv6 subscriber share one rate limit bucket`() async throws {
    try await withHarness(environment: Self.limited) { harness in
      let path = "/api/v1/devices/device/entitlements?bundleID=\(TestApps.family)"
      var statuses: [Int] = []
      for host in 1...6 {
        statuses.append(try await harness.ask(path, from: "[2001:db8::\(host)]:99").status)
      }
      #expect(statuses == [200, 200, 200, 200, 429, 429])
      // Another /64 is another subscriber, also with the same device.
      #expect(try await harness.ask(path, from: "2001:db8:0:1::1").status == 200)
    }
  }

  @Test func `a client with a /48 of IPv6 gets sixteen times the rate of an address`() async throws {
    try await withHarness(environment: Self.limited) { harness in
      let path = "/api/v1/profiles/\(UUID().uuidString)/premium"
      var statuses: [Int] = []
      for network in 1...100 {
        statuses.append(try await harness.ask(path, from: "2001:db8:7:\(network)::1").status)
      }
      #expect(statuses.count { $0 == 401 } == 4 * 16)
      #expect(statuses.count { $0 == 429 } == 100 - 4 * 16)
      #expect(try await harness.ask(path, from: "2001:db8:8:1::1").status == 401)
    }
  }

  @Test func `a sync counts as its number of proofs, for the address and the user, and is served`()
    async throws
  {
    try await withHarness(environment: Self.limited) { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let path = "/api/v1/profiles/\(user.uuidString)/premium"
      let proofs = try (0..<40).map { _ in "\"\(try harness.buy(token: user).signedTransaction)\"" }
      let body = #"{"signedTransactions": [\#(proofs.joined(separator: ","))]}"#
      func syncs(from address: String, _ body: String) async throws -> Answer {
        try await harness.ask(path, from: address, by: .put, token: token, json: body)
      }
      #expect(try await syncs(from: "203.0.113.1", body).status == 200)
      #expect(try await harness.row(of: harness.purchases(of: user)[39]).status == "active")
      let refused = try await syncs(from: "203.0.113.1", body)
      #expect(refused.status == 429)
      // 40 requests at two a second, less the burst of four.
      #expect(refused.headers[.retryAfter] == "19")
      // The user waits at another address, and another client at the address.
      #expect(try await syncs(from: "203.0.113.2", #"{"signedTransactions": []}"#).status == 429)
      #expect(try await harness.ask(path, from: "203.0.113.1").status == 429)
      harness.clock.advance(seconds: 18.5)
      #expect(try await syncs(from: "203.0.113.1", #"{"signedTransactions": []}"#).status == 200)
      // An ordinary client has one or two purchases.
      harness.clock.advance(seconds: 60)
      for _ in 0..<2 {
        #expect(
          try await syncs(from: "203.0.113.1", #"{"signedTransactions": [\#(proofs[0]),\#(proofs[1])]}"#)
            .status == 200)
      }
    }
  }

  @Test func `a legacy receipt counts as a request for each 8 KiB, and is served`() async throws {
    try await withHarness(environment: Self.limited) { harness in
      func shows(_ receipt: String) async throws -> Answer {
        try await harness.ask(
          "/api/v1/subscriptions/validate", from: "203.0.113.1", by: .post,
          json: #"{"receipt": "\#(receipt)"}"#)
      }
      let small = LegacyReceipt(purchases: [try harness.buy().transaction]).base64
      let large = String(repeating: "A", count: 10 * ClientRateLimits.receiptUnit)
      for _ in 0..<2 { #expect(try await shows(small).status == 200) }
      #expect(try await shows(large).status == 400)
      let refused = try await shows(small)
      #expect(refused.status == 429)
      // 13 requests at two a second, less the burst of four.
      #expect(refused.headers[.retryAfter] == "5")
      harness.clock.advance(seconds: 5)
      #expect(try await shows(small).status == 200)
    }
  }

  @Test func `a client's own X-Forwarded-For does not give it another rate limit bucket`() async throws {
    try await withHarness(environment: ["RATE_LIMIT": "2"]) { harness in
      let path = "/api/v1/profiles/\(UUID().uuidString)/premium"
      var statuses: [Int] = []
      for host in 1...6 { statuses.append(try await harness.ask(path, from: "203.0.113.\(host)").status) }
      #expect(statuses == [401, 401, 401, 401, 429, 429])
    }
  }

  @Test func `a user has one rate limit bucket for all addresses`() async throws {
    try await withHarness(environment: Self.limited) { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let path = "/api/v1/profiles/\(user.uuidString.lowercased())/premium"
      var statuses: [Int] = []
      for host in 1...5 {
        statuses.append(try await harness.ask(path, from: "203.0.113.\(host)", token: token).status)
      }
      #expect(statuses == [200, 200, 200, 200, 429])
      // A client without the token cannot use up the user's rate.
      harness.clock.advance(seconds: 60)
      for host in 1...9 { _ = try await harness.ask(path, from: "198.51.100.\(host)") }
      #expect(try await harness.ask(path, from: "203.0.113.1", token: token).status == 200)
    }
  }

  private struct Asked {
    var path: String
    var method = HTTPRequest.Method.get
    var token: String?
    var json: String?
  }

  /// Sends five requests for each customer from different addresses; the fifth is refused.
  private static func expectLimit(of asked: [Asked], by harness: Harness) async throws {
    for (number, asked) in asked.enumerated() {
      harness.clock.advance(seconds: 60)
      var statuses: [Int] = []
      for host in 1...5 {
        let answer = try await harness.ask(
          asked.path, from: "203.0.\(number).\(host)", by: asked.method, token: asked.token, json: asked.json)
        statuses.append(answer.status)
      }
      #expect(statuses.last == 429 && !statuses.dropLast().contains(429), "\(asked.path): \(statuses)")
      // Invalid and unauthenticated requests do not count for a user.
      #expect(Set([400, 401]).isDisjoint(with: statuses), "\(asked.path): \(statuses)")
    }
  }

  private static func event(of customer: String, in bundleID: String, _ harness: Harness) -> String {
    #"{"bundleID": "\#(bundleID)", "customerID": "\#(customer)", "events": "#
      + #"[{"name": "paywall_shown", "at": "\#(RFC3339.string(from: harness.clock.now))"}]}"#
  }

  @Test func `requests from other addresses do not use up the rate of the device that they name`()
    async throws
  {
    try await withHarness(configuration: ScreenTime.configuration(), environment: Self.limited) { harness in
      let signed = try harness.store.appTransaction(of: ScreenTime.bundleID).signed
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID).signedTransaction
      let children = "/api/v1/devices/phone/children?bundleID=\(ScreenTime.bundleID)"
      let routes = [
        Asked(
          path: "/api/v1/trials", method: .post,
          json: #"{"deviceID": "phone", "bundleID": "\#(ScreenTime.bundleID)", "#
            + #""signedAppTransaction": "\#(signed)"}"#),
        Asked(
          path: "/api/v1/events", method: .post,
          json: Self.event(of: "phone", in: ScreenTime.bundleID, harness)),
        Asked(
          path: "/api/v1/subscriptions/validate", method: .post,
          json: #"{"deviceID": "phone", "signedTransaction": "\#(bought)"}"#),
        Asked(path: "/api/v1/devices/phone/entitlements?bundleID=\(ScreenTime.bundleID)"),
        Asked(path: children), Asked(path: children, method: .post, json: #"{"childDeviceID": "child"}"#),
        Asked(path: children.replacing("children?", with: "children/child?"), method: .delete),
      ]
      for (number, asked) in routes.enumerated() {
        harness.clock.advance(seconds: 60)
        func status(from address: String) async throws -> Int {
          try await harness.ask(asked.path, from: address, by: asked.method, json: asked.json).status
        }
        for stranger in 1...9 { _ = try await status(from: "198.51.\(number).\(stranger)") }
        // The other clients may have removed the child.
        #expect([200, 201, 202, 404].contains(try await status(from: "203.0.113.1")), "\(asked.path)")
      }
    }
  }

  @Test
  func `a user with a token has one bucket for all routes, and requests without the token do not count`()
    async throws
  {
    try await withHarness(environment: Self.limited) { harness in
      let user = UUID()
      let token = try await harness.token(for: user)
      let bought = try harness.buy(token: user)
      let premium = "/api/v1/profiles/\(user.uuidString)/premium"
      try await Self.expectLimit(
        of: [
          Asked(path: premium, token: token),
          Asked(path: premium, method: .put, token: token, json: #"{"transactions": []}"#),
          Asked(
            path: "/api/v1/subscriptions/validate", method: .post, token: token,
            json: #"{"signedTransaction": "\#(bought.signedTransaction)"}"#),
          Asked(
            path: "/api/v1/events", method: .post, token: token,
            json: Self.event(of: user.uuidString, in: TestApps.climbing, harness)),
        ], by: harness)
      harness.clock.advance(seconds: 60)
      let event = Self.event(of: user.uuidString, in: TestApps.climbing, harness)
      for host in 1...9 {
        #expect(
          try await harness.ask("/api/v1/events", from: "198.51.100.\(host)", json: event).status == 202)
      }
      #expect(try await harness.ask(premium, from: "203.0.113.1", token: token).status == 200)
    }
  }

  @Test func `the App Store's webhook has no rate limit`() async throws {
    try await withHarness(environment: Self.limited) { harness in
      for _ in 0..<12 {
        let payload = try harness.buy().notification.signedPayload
        #expect(try await harness.post(payload, from: "17.58.0.1").status == 200)
      }
    }
  }

  @Test func `an address that sends forged notifications is refused, and the App Store's is not`()
    async throws
  {
    try await withHarness(environment: Self.limited) { harness in
      let good = try harness.buy().notification.signedPayload
      let forged = String(good.dropLast(8)) + "AAAAAAAA"
      for _ in 0..<20 { #expect(try await harness.post(forged, from: "203.0.113.1").status == 401) }
      let refused = try await harness.post(forged, from: "203.0.113.1")
      #expect(refused.status == 429)
      #expect(refused.headers[.retryAfter] == "1")
      #expect(try await harness.post(good, from: "17.58.0.1").status == 200)
      // The App Store's requests come through the unknown proxy too.
      for _ in 0..<25 { #expect(try await harness.post(forged, from: "10.0.0.1").status == 401) }
      harness.clock.advance(seconds: 1)
      #expect(try await harness.post(good, from: "203.0.113.1").status == 200)
    }
  }

  @Test(arguments: ["{", "{}", "[1]", #"{"signedPayload": 7}"#])
  func `an address that sends bodies that are no notifications is refused`(body: String) async throws {
    try await withHarness(environment: Self.limited) { harness in
      let webhook = "/api/v1/subscriptions/webhook"
      for _ in 0..<20 {
        let answer = try await harness.ask(webhook, from: "203.0.113.1", json: body)
        #expect(answer.status == 400)
      }
      #expect(try await harness.ask(webhook, from: "203.0.113.1", json: body).status == 429)
      #expect(
        try await harness.post(harness.buy().notification.signedPayload, from: "17.58.0.1").status == 200)
    }
  }

  @Test
  func
    `notifications of version 1 are limited together, and those of version 2 from the same address are not`()
    async throws
  {
    try await withHarness(environment: Self.limited) { harness in
      let webhook = "/api/v1/subscriptions/webhook"
      let body = #"{"notification_type": "DID_RENEW", "unified_receipt": {}}"#
      for number in 0..<ClientRateLimits.foreignPerDay {
        let answer = try await harness.ask(webhook, from: "17.58.0.\(number % 250)", json: body)
        #expect(answer.status == 400)
      }
      #expect(try await harness.ask(webhook, from: "10.0.0.1", json: body).status == 429)
      #expect(
        try await harness.post(harness.buy().notification.signedPayload, from: "17.58.0.1").status == 200)
    }
  }

  @Test func `ids that production does not answer, and the sandbox does not know, count as guesses`()
    async throws
  {
    try await withHarness(environment: ["RATE_LIMIT": "1000", "TRUSTED_PROXIES": "127.0.0.0/8"]) { harness in
      harness.store.add(.unauthorized.in(.production))
      var statuses: [Int] = []
      for id in 0..<12 {
        statuses.append(try await harness.lookUp("77700000000000\(10 + id)", from: "203.0.113.1").status)
      }
      #expect(statuses == Array(repeating: 503, count: 10) + [429, 429])
    }
  }

  @Test func `an address that guesses transaction ids leaves App Store quota to other addresses`()
    async throws
  {
    try await withHarness(environment: ["RATE_LIMIT": "1000", "TRUSTED_PROXIES": "127.0.0.0/8"]) { harness in
      var statuses: [Int] = []
      for id in 0..<12 {
        statuses.append(try await harness.lookUp("77700000000000\(10 + id)", from: "203.0.113.1").status)
      }
      #expect(statuses == Array(repeating: 404, count: 10) + [429, 429])
      let bought = try harness.buy()
      #expect(try await harness.lookUp(bought.transactionID, from: "203.0.113.2").status == 200)
    }
  }

  @Test(arguments: ["0", "-1", "+5", "20/s", "1.5", "99999999999999999999", "no"])
  func `an invalid RATE_LIMIT stops the start`(value: String) {
    let problem = #expect(throws: ConfigurationProblem.self) {
      try Settings(environment: ["DATABASE_URL": "postgres://h/d", "RATE_LIMIT": value])
    }
    #expect(problem.map { "\($0)" }?.contains("RATE_LIMIT") == true)
  }

  @Test func `the settings of rate limit, proxies, drain delay and pooler are parsed`() throws {
    func settings(_ variables: [String: String]) throws -> Settings {
      try Settings(environment: ["DATABASE_URL": "postgres://h/d"].merging(variables) { $1 })
    }
    #expect(try settings([:]).rateLimit == 20)
    #expect(try settings(["RATE_LIMIT": "off"]).rateLimit == nil)
    #expect(try settings(["RATE_LIMIT": "7"]).rateLimit == 7)
    let proxies = try settings(["TRUSTED_PROXIES": "10.0.0.0/8, ::1"]).trustedProxies
    #expect(proxies.contain(try #require(IPAddress("10.1.1.1"))))
    #expect(proxies.contain(try #require(IPAddress("::1"))))
    #expect(throws: ConfigurationProblem.self) { try settings(["TRUSTED_PROXIES": "10.0.0.0/8,"]) }
    #expect(throws: ConfigurationProblem.self) { try settings(["TRUSTED_PROXIES": "proxy.local"]) }
    #expect(proxies == TrustedProxies(["10.0.0.0/8", "::1"].compactMap { IPNetwork($0) }))
    #expect(
      try settings(["TRUSTED_PROXIES": "::1", "FORWARDED_HEADER": "Forwarded"]).trustedProxies
        == TrustedProxies(["::1"].compactMap { IPNetwork($0) }, header: .forwarded))
    #expect(throws: ConfigurationProblem.self) { try settings(["FORWARDED_HEADER": "x-real-ip"]) }
    #expect(try settings(["DRAIN_DELAY": "15"]).drainDelay == .seconds(15))
    #expect(throws: ConfigurationProblem.self) { try settings(["DRAIN_DELAY": "301"]) }
    for (pooler, prepares, sets) in [
      ("none", true, true), ("session", true, false), ("transaction", false, false),
    ] {
      let database = try settings(["DATABASE_POOLER": pooler]).database
      #expect(database.usesPreparedStatements == prepares)
      #expect(database.setsOptions == sets)
    }
    #expect(throws: ConfigurationProblem.self) { try settings(["DATABASE_POOLER": "pgbouncer"]) }
  }
}

extension Harness {
  /// Sends a request like a proxy with a request of `client`.
  fileprivate func ask(
    _ path: String, from client: String, by method: HTTPRequest.Method? = nil, token: String? = nil,
    json: String? = nil, to address: SocketAddress? = nil
  ) async throws -> Answer {
    var headers = HTTPFields()
    if let name = HTTPField.Name("X-Forwarded-For") { headers[name] = client }
    if let token { headers[.authorization] = "Bearer \(token)" }
    if json != nil { headers[.contentType] = "application/json" }
    let response = try await http.send(
      CurlRequest(
        method: method ?? (json == nil ? .get : .post), url: "http://\(address ?? self.address)\(path)",
        headers: headers, body: json.map { Array($0.utf8) }))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }

  /// The original transaction ids of a user's purchases.
  fileprivate func purchases(of user: UUID) async throws -> [String] {
    try await pool.query("SELECT original_transaction_id FROM subscriptions WHERE user_id = \(user)")
      .map { try $0.decode(0, as: String.self) }
  }

  fileprivate func post(_ payload: String, from client: String) async throws -> Answer {
    try await ask("/api/v1/subscriptions/webhook", from: client, json: #"{"signedPayload": "\#(payload)"}"#)
  }

  fileprivate func lookUp(_ id: String, from client: String) async throws -> Answer {
    try await ask(
      "/api/v1/subscriptions/validate", from: client,
      json: #"{"transactionID": "\#(id)", "bundleID": "\#(TestApps.climbing)"}"#)
  }
}
