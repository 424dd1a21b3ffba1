import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Actions
@testable import ReceiptService

/// The console's sign-in, sessions and roles, as a browser and an attacker meet them.
@Suite struct ConsoleAccessTests {
  private static func own(_ harness: Harness) -> String { "http://\(harness.adminAddress)" }

  private static func signIn(_ role: SupportRole, _ harness: Harness) async throws -> String {
    let token = try await harness.add("Ada \(UUID())", role)
    let answer = try await harness.browse(
      .post, "/console/sign-in", origin: own(harness), form: ["token": token])
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
          let answer = try await harness.browse(.get, path, cookie: cookie)
          #expect(answer.status == 303 && answer.headers[.location]?.hasPrefix("/console/sign-in") == true)
        }
      }
      let wrong = try await harness.browse(
        .post, "/console/sign-in", origin: Self.own(harness), form: ["token": "wrong"])
      #expect(wrong.status == 401 && wrong.headers[.setCookie] == nil)
    }
  }

  @Test func `a session that was copied ends with the sign-out`() async throws {
    try await withScreenTime { harness in
      let cookie = try await Self.signIn(.agent, harness)
      #expect(try await harness.browse(.get, "/console/search", cookie: cookie).status == 200)
      let out = try await harness.browse(
        .post, "/console/sign-out", cookie: cookie, origin: Self.own(harness), form: [:])
      #expect(out.status == 303)
      #expect(try await harness.browse(.get, "/console/search", cookie: cookie).status == 303)
    }
  }

  @Test func `a session ends after twelve hours, and when its person is removed`() async throws {
    try await withScreenTime { harness in
      let cookie = try await Self.signIn(.agent, harness)
      harness.clock.advance(seconds: 12 * 3_600 - 1)
      #expect(try await harness.browse(.get, "/console/search", cookie: cookie).status == 200)
      harness.clock.advance(seconds: 2)
      #expect(try await harness.browse(.get, "/console/search", cookie: cookie).status == 303)
      let other = try await Self.signIn(.agent, harness)
      _ = try await harness.pool.query(
        "UPDATE people SET removed_at = \(harness.clock.now), removed_by = 'ada' WHERE removed_at IS NULL")
      #expect(try await harness.browse(.get, "/console/search", cookie: other).status == 303)
    }
  }

  @Test func `a form of another site is refused, and does not end the session`() async throws {
    try await withScreenTime { harness in
      let cookie = try await Self.signIn(.agent, harness)
      for (origin, site) in [
        ("https://evil.example", nil), (nil, "cross-site"), (Self.own(harness), "cross-site"),
        ("null", nil), (nil, nil),
      ] as [(String?, String?)] {
        let answer = try await harness.browse(
          .post, "/console/sign-out", cookie: cookie, origin: origin, site: site, form: [:])
        #expect(answer.status == 403)
      }
      #expect(try await harness.browse(.get, "/console/search", cookie: cookie).status == 200)
    }
  }

  @Test func `markup in ids and names is text on a customer's page`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone")
      #expect(try await harness.pair("child", to: "phone", name: "<b>Emma</b>").status == 201)
      let cookie = try await Self.signIn(.agent, harness)
      for page in ["/console/customer/phone", "/console/search?q=%3Cb%3EEmma%22%20x"] {
        let answer = try await harness.browse(.get, page, cookie: cookie)
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
        #expect(try await harness.browse(.get, path, cookie: numbers).status == 403)
      }
      for path in ["/console/numbers", "/console/report"] {
        #expect(try await harness.browse(.get, path, cookie: numbers).status == 200)
      }
      let support = try await Self.signIn(.agent, harness)
      #expect(try await harness.browse(.get, "/console/customer/phone", cookie: support).status == 200)
      #expect(try await harness.browse(.get, "/console/customer/unknown", cookie: support).status == 404)
    }
  }

  @Test func `an address that guesses tokens is limited, and a person behind it signs in all the same`()
    async throws
  {
    try await withHarness(environment: ["RATE_LIMIT": "20"]) { harness in
      let token = try await harness.add("Ada", .agent)
      var statuses: [Int: Int] = [:]
      for number in 0..<1_000 {
        let guess = number.isMultiple(of: 2) ? PersonToken().text : "guess \(number)"
        let answer = try await harness.browse(
          .post, "/console/sign-in", origin: Self.own(harness), form: ["token": guess])
        #expect(answer.headers[.setCookie] == nil)
        statuses[answer.status, default: 0] += 1
      }
      #expect(statuses == [401: 20, 429: 980])
      let answer = try await harness.browse(
        .post, "/console/sign-in", origin: Self.own(harness), form: ["token": token])
      #expect(answer.status == 303 && answer.headers[.setCookie] != nil)
      #expect(try await harness.count("console_sessions") == 1)
    }
  }

  @Test func `the host of a request leads nowhere else, and is no proof of a form's origin`() async throws {
    try await withScreenTime { harness in
      let cookie = try await Self.signIn(.agent, harness)
      for path in ["/console", "/console/search", "/console/sign-in?next=//evil.example/x"] {
        for session in [nil, cookie] {
          let answer = try await harness.browse(.get, path, cookie: session, host: "evil.example")
          let location = answer.headers[.location] ?? "/console"
          #expect(
            location.hasPrefix("/console") && !answer.text.contains("evil.example"), "\(path) \(location)")
        }
      }
      let answer = try await harness.browse(
        .post, "/console/sign-out", cookie: cookie, origin: Self.own(harness), host: "evil.example", form: [:]
      )
      #expect(answer.status == 403)
      for next in [
        "https://evil.example/", "//evil.example/", "/\\evil.example", "/consoles", "javascript:alert(1)",
      ] {
        let token = try await harness.add("Ada \(UUID())", .agent)
        let signedIn = try await harness.browse(
          .post, "/console/sign-in", origin: Self.own(harness), form: ["token": token, "next": next])
        #expect(signedIn.headers[.location] == "/console", "\(next)")
      }
    }
  }
}
