import Actions
import Curl
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService

/// The console's sign-in, sessions and roles, as a browser and an attacker meet them.
@Suite struct ConsoleAccessTests {
  private static func send(
    _ method: HTTPRequest.Method, _ path: String, cookie: String? = nil, origin: String? = nil,
    site: String? = nil, form: String? = nil, _ harness: Harness
  ) async throws -> Answer {
    var headers = HTTPFields()
    headers[.cookie] = cookie
    headers[.origin] = origin
    if let site { headers[try #require(HTTPField.Name("Sec-Fetch-Site"))] = site }
    if form != nil { headers[.contentType] = "application/x-www-form-urlencoded" }
    let response = try await harness.http.send(
      CurlRequest(
        method: method, url: "http://\(harness.adminAddress)\(path)", headers: headers,
        body: form.map { Array($0.utf8) }, timeout: .seconds(10)))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }

  private static func own(_ harness: Harness) -> String { "http://\(harness.adminAddress)" }

  private static func signIn(_ role: SupportRole, _ harness: Harness) async throws -> String {
    let token = try await harness.add("Ada \(UUID())", role)
    let answer = try await send(
      .post, "/console/sign-in", origin: own(harness), form: "token=\(token)", harness)
    #expect(answer.status == 303)
    let cookie = try #require(answer.headers[.setCookie])
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/console"] { #expect(cookie.contains(attribute)) }
    #expect(!cookie.contains(token))
    return String(cookie.prefix { $0 != ";" })
  }

  @Test func `no page shows anything without a session, and a wrong token makes none`() async throws {
    try await withScreenTime { harness in
      for path in [
        "/console", "/console/search", "/console/customer/phone", "/console/numbers", "/console/report",
      ] {
        for cookie in [nil, "receiptd_console=AAAA", "receiptd_session=AAAA"] {
          let answer = try await Self.send(.get, path, cookie: cookie, harness)
          #expect(answer.status == 303 && answer.headers[.location]?.hasPrefix("/console/sign-in") == true)
        }
      }
      let wrong = try await Self.send(
        .post, "/console/sign-in", origin: Self.own(harness), form: "token=wrong", harness)
      #expect(wrong.status == 401 && wrong.headers[.setCookie] == nil)
    }
  }

  @Test func `a session that was copied ends with the sign-out`() async throws {
    try await withScreenTime { harness in
      let cookie = try await Self.signIn(.agent, harness)
      #expect(try await Self.send(.get, "/console/search", cookie: cookie, harness).status == 200)
      let out = try await Self.send(
        .post, "/console/sign-out", cookie: cookie, origin: Self.own(harness), form: "", harness)
      #expect(out.status == 303)
      #expect(try await Self.send(.get, "/console/search", cookie: cookie, harness).status == 303)
    }
  }

  @Test func `a session ends after twelve hours, and when its person is removed`() async throws {
    try await withScreenTime { harness in
      let cookie = try await Self.signIn(.agent, harness)
      harness.clock.advance(seconds: 12 * 3_600 - 1)
      #expect(try await Self.send(.get, "/console/search", cookie: cookie, harness).status == 200)
      harness.clock.advance(seconds: 2)
      #expect(try await Self.send(.get, "/console/search", cookie: cookie, harness).status == 303)
      let other = try await Self.signIn(.agent, harness)
      _ = try await harness.pool.query(
        "UPDATE people SET removed_at = \(harness.clock.now), removed_by = 'ada' WHERE removed_at IS NULL")
      #expect(try await Self.send(.get, "/console/search", cookie: other, harness).status == 303)
    }
  }

  @Test func `a form of another site is refused, and does not end the session`() async throws {
    try await withScreenTime { harness in
      let cookie = try await Self.signIn(.agent, harness)
      for (origin, site) in [
        ("https://evil.example", nil), (nil, "cross-site"), (Self.own(harness), "cross-site"),
        ("null", nil), (nil, nil),
      ] as [(String?, String?)] {
        let answer = try await Self.send(
          .post, "/console/sign-out", cookie: cookie, origin: origin, site: site, form: "", harness)
        #expect(answer.status == 403)
      }
      #expect(try await Self.send(.get, "/console/search", cookie: cookie, harness).status == 200)
    }
  }

  @Test func `markup in ids and names is text on a customer's page`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      #expect(try await harness.pair("child", to: "phone", name: "<b>Emma</b>").status == 201)
      let cookie = try await Self.signIn(.agent, harness)
      for page in ["/console/customer/phone", "/console/search?q=%3Cb%3EEmma%22%20x"] {
        let answer = try await Self.send(.get, page, cookie: cookie, harness)
        let html = String(decoding: answer.body, as: UTF8.self)
        #expect(html.contains("&lt;b&gt;Emma"), "\(page) \(answer.status)")
        for markup in ["<b>Emma"] { #expect(!html.contains(markup)) }
        let policy = try #require(answer.headers[HTTPField.Name("Content-Security-Policy")!])
        #expect(policy.contains("default-src 'none'") && !policy.contains("unsafe-inline"))
        #expect(answer.headers[.cacheControl] == "no-store")
      }
    }
  }

  @Test func `a role opens its screens alone`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      let numbers = try await Self.signIn(.numbers, harness)
      for path in ["/console/search", "/console/customer/phone"] {
        #expect(try await Self.send(.get, path, cookie: numbers, harness).status == 403)
      }
      for path in ["/console/numbers", "/console/report"] {
        #expect(try await Self.send(.get, path, cookie: numbers, harness).status == 200)
      }
      let support = try await Self.signIn(.agent, harness)
      #expect(try await Self.send(.get, "/console/customer/phone", cookie: support, harness).status == 200)
      #expect(try await Self.send(.get, "/console/customer/unknown", cookie: support, harness).status == 404)
    }
  }
}
