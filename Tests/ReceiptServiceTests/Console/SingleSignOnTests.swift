import Configuration
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Actions
@testable import ReceiptService

/// Sign-in by the header of a single-sign-on proxy (`CONSOLE_USER_HEADER`).
@Suite struct SingleSignOnTests {
  private static let behindProxy = [
    "CONSOLE_USER_HEADER": "X-Forwarded-User", "TRUSTED_PROXIES": "127.0.0.0/8",
    "CONSOLE_HOST": "127.0.0.1",
  ]

  private static func signIn(
    _ names: [String], _ harness: Harness, origin: String? = nil, site: String? = nil,
    token: String? = nil
  ) async throws -> Answer {
    try await harness.browse(
      .post, "/console/sign-in", origin: origin ?? (site == nil ? "http://\(harness.adminAddress)" : nil),
      site: site, named: names, form: token.map { ["token": $0] } ?? ["next": "/console/record"])
  }

  private static func cookie(_ answer: Answer) throws -> String {
    String(try #require(answer.headers[.setCookie]).prefix { $0 != ";" })
  }

  @Test func `a person whom the proxy names signs in without a token, with the person's role`() async throws {
    try await withHarness(environment: Self.behindProxy) { harness in
      let name = "ada@example.com"
      _ = try await harness.add(name, .agent)
      let page = try await harness.browse(.get, "/console/sign-in?next=/console/record", named: [name])
      #expect(page.text.contains("Continue as \(name)"))
      let signedIn = try await Self.signIn([name], harness)
      #expect(signedIn.status == 303 && signedIn.headers[.location] == "/console/record")
      let cookie = try Self.cookie(signedIn)
      let record = try await harness.browse(.get, "/console/record", cookie: cookie, named: [name])
      #expect(record.status == 200 && record.text.contains(name))
      #expect(try await harness.browse(.get, "/console/queues", cookie: cookie, named: [name]).status == 403)
      let seen = try await harness.pool.query("SELECT last_used_at IS NOT NULL AS seen FROM people")[0]
      #expect(try seen.decode("seen", as: Bool.self))

      let out = try await harness.browse(
        .post, "/console/sign-out", cookie: cookie, origin: "http://\(harness.adminAddress)", named: [name],
        form: [:])
      #expect(out.headers[.location] == "/console/sign-in")
      #expect(try await harness.count("console_sessions") == 0)
      #expect(try await harness.browse(.get, "/console/record", cookie: cookie, named: [name]).status == 303)
    }
  }

  @Test func `a header from a peer that is no trusted proxy is ignored`() async throws {
    for environment in [
      [
        "CONSOLE_USER_HEADER": "X-Forwarded-User", "TRUSTED_PROXIES": "10.0.0.0/8",
        "CONSOLE_HOST": "127.0.0.1",
      ],
      // A page elsewhere whose name leads to this machine.
      [
        "CONSOLE_USER_HEADER": "X-Forwarded-User", "TRUSTED_PROXIES": "127.0.0.0/8",
        "CONSOLE_HOST": "console.example.com",
      ],
      ["TRUSTED_PROXIES": "127.0.0.0/8"],
    ] {
      try await withHarness(environment: environment) { harness in
        let token = try await harness.add("Ada", .lead)
        let page = try await harness.browse(.get, "/console/sign-in", named: ["Ada"])
        #expect(!page.text.contains("Continue as"))
        let answer = try await Self.signIn(["Ada"], harness)
        #expect(answer.status == 401 && answer.headers[.setCookie] == nil)
        #expect(try await harness.browse(.get, "/console/record", named: ["Ada"]).status == 303)
        // It does not harm a session either.
        let cookie = try Self.cookie(await Self.signIn(["Mallory"], harness, token: token))
        #expect(
          try await harness.browse(.get, "/console/record", cookie: cookie, named: ["Mallory"]).status == 200)
      }
    }
  }

  @Test(arguments: ["\u{A0}", "\u{3000}", "\u{200B}"])
  func `a blank that is not ASCII belongs to the name`(blank: String) async throws {
    try await withHarness(environment: Self.behindProxy) { harness in
      _ = try await harness.add("Ada", .lead)
      let answer = try await Self.signIn(["Ada\(blank)"], harness)
      #expect(answer.status == 401 && answer.headers[.setCookie] == nil)
      #expect(try await Self.signIn(["Ada"], harness).status == 303)
    }
  }

  @Test func `two names are no name, in either order, also for a session`() async throws {
    try await withHarness(environment: Self.behindProxy) { harness in
      for name in ["Ada", "Mallory"] { _ = try await harness.add(name, .lead) }
      for names in [["Ada", "Mallory"], ["Mallory", "Ada"], ["Ada", "Ada"]] {
        let answer = try await Self.signIn(names, harness)
        #expect(answer.status == 401 && answer.headers[.setCookie] == nil)
        #expect(answer.text.contains("more than one name"))
      }
      // As one field, it is a name that no person can have.
      #expect(try await Self.signIn(["Ada, Mallory"], harness).status == 401)
      let cookie = try Self.cookie(await Self.signIn(["Ada"], harness))
      let twice = try await harness.browse(
        .get, "/console/record", cookie: cookie, named: ["Ada", "Mallory"])
      #expect(twice.status == 303)
      #expect(try await harness.browse(.get, "/console/record", cookie: cookie, named: ["Ada"]).status == 200)
    }
  }

  @Test func `an unknown name, another spelling and a removed person are refused, and counted`() async throws
  {
    let limited = Self.behindProxy.merging(["RATE_LIMIT": "20"]) { $1 }
    try await withHarness(environment: limited) { harness in
      for name in ["Ada", "Ben"] { _ = try await harness.add(name, .lead) }
      let cookie = try Self.cookie(await Self.signIn(["Ben"], harness))
      _ = try await harness.service.people.remove("Ben", by: #require(Harness.ada), isDryRun: false)
      #expect(try await harness.browse(.get, "/console/record", cookie: cookie, named: ["Ben"]).status == 303)
      var statuses: [Int: Int] = [:]
      for number in 0..<25 {
        let name = ["Ben", "ada", "Nobody", "<b>Nobody"][number % 4]
        let answer = try await Self.signIn([name], harness)
        #expect(answer.headers[.setCookie] == nil && !answer.text.contains("<b>Nobody"))
        statuses[answer.status, default: 0] += 1
      }
      #expect(statuses == [401: 20, 429: 5])
      #expect(try await Self.signIn(["Ada"], harness).status == 303)
    }
  }

  @Test func `a session ends where the proxy names another person, and a token is no way around it`()
    async throws
  {
    try await withHarness(environment: Self.behindProxy) { harness in
      let ada = try await harness.add("Ada", .lead)
      _ = try await harness.add("Ben", .agent)
      let cookie = try Self.cookie(await Self.signIn(["Ada"], harness))
      #expect(try await harness.browse(.get, "/console/record", cookie: cookie, named: ["Ben"]).status == 303)
      #expect(
        try await harness.browse(.get, "/console", cookie: cookie, named: ["Ben"]).headers[.location]
          == "/console/sign-in")
      let other = try await Self.signIn(["Ben"], harness, token: ada)
      #expect(other.status == 401 && other.headers[.setCookie] == nil)
      // Without the proxy the token counts alone.
      #expect(try await Self.signIn([], harness, token: ada).status == 303)
    }
  }

  @Test func `a form of another site does not sign in by the proxy's header`() async throws {
    try await withHarness(environment: Self.behindProxy) { harness in
      _ = try await harness.add("Ada", .lead)
      for (origin, site) in [("https://evil.example", nil), (nil, "cross-site"), (nil, "none")]
        as [(String?, String?)]
      {
        let answer = try await Self.signIn(["Ada"], harness, origin: origin, site: site)
        #expect(answer.status == 403 && answer.headers[.setCookie] == nil)
      }
      #expect(try await harness.count("console_sessions") == 0)
    }
  }

  @Test func `the setting needs a trusted proxy and a header of the proxy's own`() throws {
    func header(_ value: String, _ proxies: String?) throws -> String? {
      var environment = ["DATABASE_URL": "postgresql://localhost/receiptd", "CONSOLE_USER_HEADER": value]
      environment["TRUSTED_PROXIES"] = proxies
      environment["CONSOLE_HOST"] = "console.example.com"
      return try Settings(environment: environment).consoleUserHeader
    }
    #expect(try header("Remote-User", "10.0.0.1") == "Remote-User")
    #expect(try header("", nil) == nil)
    for host in [nil, "https://console.example.com", "console.example.com:443"] {
      #expect(throws: ConfigurationProblem.self) {
        try Settings(environment: [
          "DATABASE_URL": "postgresql://localhost/receiptd", "CONSOLE_USER_HEADER": "Remote-User",
          "TRUSTED_PROXIES": "10.0.0.1", "CONSOLE_HOST": host ?? "",
        ])
      }
    }
    #expect(throws: ConfigurationProblem.self) { try header("Remote-User", nil) }
    for everyone in ["0.0.0.0/0", "::/0", "10.0.0.1, 0.0.0.0/0"] {
      #expect(throws: ConfigurationProblem.self) { try header("Remote-User", everyone) }
    }
    #expect(try header("Remote-User", "10.0.0.0/8, fd00::/8") == "Remote-User")
    for name in ["Cookie", "x-forwarded-for", "Remote User", "Remote-User:", "é"] {
      #expect(throws: ConfigurationProblem.self) { try header(name, "10.0.0.1") }
    }
  }
}
