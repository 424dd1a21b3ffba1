import Foundation
import HTTPTypes
import Testing

@testable import HTTP

@Suite struct RouterTests {
  private static let router: Router = {
    var router = Router()
    let answer: @Sendable (Request) throws -> Response = { _ in .empty(.ok) }
    router.onImmediate(.get, "/", answer)
    router.onImmediate(.get, "/healthz", answer)
    router.onImmediate(.get, "/profiles/{userID}/premium", answer)
    router.onImmediate(.put, "/profiles/{userID}/premium", maximumBodyLength: 9, answer)
    router.onImmediate(.post, "/profiles/me/premium", answer)
    router.onImmediate(.delete, "/devices/{deviceID}/children/{childID}", answer)
    return router
  }()

  private func outcome(_ method: HTTPRequest.Method, _ path: String) -> String {
    switch Self.router.match(method, path.utf8.span) {
    case .route(let endpoint, let parameters):
      let names = ["userID", "deviceID", "childID"]
      return
        ([endpoint.route.pattern] + names.compactMap { name in parameters[name].map { "\(name)=\($0)" } })
        .joined(separator: " ")
    case .options(let allow): return "allow \(allow)"
    case .problem(let problem): return "\(problem.status.code) \(problem.headers[.allow] ?? "")"
    }
  }

  @Test(arguments: [
    ("/", "/"), ("/healthz", "/healthz"), ("/heal%74hz", "/healthz"),
    ("/profiles/42/premium", "/profiles/{userID}/premium userID=42"),
    ("/profiles/a%2Fb/premium", "/profiles/{userID}/premium userID=a/b"),
    ("/profiles/%C3%A9%20+/premium", "/profiles/{userID}/premium userID=\u{E9} +"),
    ("/healthz/", "404 "), ("//healthz", "404 "), ("/Healthz", "404 "), ("/profiles//premium", "404 "),
    ("/profiles/42", "404 "), ("/profiles/42/premium/x", "404 "), ("/nothing", "404 "),
    ("/profiles/../healthz", "400 "), ("/./healthz", "400 "), ("/%2e%2E/healthz", "400 "),
    ("/healthz%", "400 "), ("/healthz%4", "400 "), ("/healthz%4g", "400 "), ("/nothing/%zz", "400 "),
    ("/profiles/%00/premium", "400 "), ("/profiles/%0a/premium", "400 "), ("/profiles/%7F/premium", "400 "),
    ("/profiles/%C3/premium", "400 "), ("/profiles/%C0%AF/premium", "400 "),
  ])
  func `a path gives its route, 404 or 405`(path: String, expected: String) {
    #expect(outcome(.get, path) == expected)
  }

  @Test func `a route returns its path parameters in order`() {
    #expect(
      outcome(.delete, "/devices/a/children/b")
        == "/devices/{deviceID}/children/{childID} deviceID=a childID=b")
  }

  @Test func `a method that the path does not have gets 405 with Allow`() {
    #expect(outcome(.delete, "/profiles/1/premium") == "405 GET, PUT, HEAD, OPTIONS")
    #expect(outcome(.get, "/devices/a/children/b") == "405 DELETE, OPTIONS")
  }

  @Test func `OPTIONS gets Allow, for a path and for the server`() {
    #expect(outcome(.options, "/healthz") == "allow GET, HEAD, OPTIONS")
    #expect(outcome(.options, "*") == "allow GET, PUT, POST, DELETE, HEAD, OPTIONS")
    #expect(outcome(.options, "/nothing") == "404 ")
  }

  @Test func `HEAD uses the route of GET`() {
    #expect(outcome(.head, "/healthz") == "/healthz")
    #expect(outcome(.head, "/devices/a/children/b") == "405 DELETE, OPTIONS")
  }

  @Test func `a literal path segment takes precedence over a parameter`() {
    #expect(outcome(.post, "/profiles/me/premium") == "/profiles/me/premium")
    #expect(outcome(.post, "/profiles/you/premium") == "405 GET, PUT, HEAD, OPTIONS")
  }

  @Test func `a router lists its routes with method and body limit`() {
    #expect(Self.router.routes.map(\.pattern).count == 6)
    #expect(Self.router.routes[3].method == .put)
    #expect(Self.router.routes[3].maximumBodyLength == 9)
  }

  @Test func `a path parameter is converted to its type, or refused with its name and the type`() throws {
    let parameters: PathParameters = [
      "userID": "4F1A2B3C-0000-4000-8000-0123456789ab", "text": "x", "number": "12", "signed": "+5",
      "almost": "-F1A2B3C-0000-4000-8000-0123456789ab",
    ]
    let id: UUID = try parameters.require("userID")
    #expect(id.uuidString == "4F1A2B3C-0000-4000-8000-0123456789AB")
    #expect(try parameters.require("number", as: Int.self) == 12)
    #expect(try parameters.require("text", as: String.self) == "x")
    let problem = #expect(throws: Problem.self) { try parameters.require("text", as: UUID.self) }
    #expect(problem?.status == .badRequest)
    #expect(problem?.code == .invalidRequest)
    #expect(problem?.detail == "'text' in the path must be a UUID.")
    #expect(throws: Problem.self) { try parameters.require("almost", as: UUID.self) }
    #expect(throws: Problem.self) { try parameters.require("signed", as: Int.self) }
    #expect(throws: Problem.self) { try parameters.require("missing", as: String.self) }
  }
}

@Suite struct QueryTests {
  @Test func `the parameters of a query are decoded in order`() throws {
    let query = try Query(decoding: "a=1&b=x%20y+z&a=2&c&&d=%C3%A9&=e&f==g")
    #expect(query["a"] == "1")
    #expect(query.values(for: "a") == ["1", "2"])
    #expect(query["b"] == "x y z")
    #expect(query["c"] == "")
    #expect(query["d"] == "\u{E9}")
    #expect(query[""] == "e")
    #expect(query["f"] == "=g")
    #expect(query["g"] == nil)
  }

  @Test(arguments: ["a=%", "a=%4", "a=%4g", "%zz=1", "a=%00", "a=%0D%0A", "a=%FF"])
  func `a query with invalid percent-encoding gets invalid_request`(raw: String) {
    let problem = #expect(throws: Problem.self) { try Query(decoding: raw) }
    #expect(problem?.code == .invalidRequest)
  }

  @Test func `a form of a text may have lines and tabs, and no other control character`() throws {
    let form = try Query(decoding: "a=1%0D%0A%092", allowsLines: true)
    #expect(form["a"] == "1\r\n\t2")
    for raw in ["a=%00", "a=%1B", "a=%7F", "a%0A=1"] {
      #expect(throws: Problem.self) { try Query(decoding: raw, allowsLines: true) }
    }
  }

  @Test func `a required query parameter must occur exactly once`() throws {
    let query = try Query(decoding: "a=1&b=1&b=2")
    #expect(try query.require("a") == "1")
    #expect(throws: Problem.self) { try query.require("b") }
    #expect(throws: Problem.self) { try query.require("c") }
  }

  @Test func `an empty text is an empty query`() throws {
    #expect(try Query(decoding: "") == Query())
  }
}
