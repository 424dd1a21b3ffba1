import HTTPTypes
import Testing

@testable import HTTP

/// The order in which a router's middleware sees requests, responses and errors.
@Suite struct MiddlewareTests {
  /// A middleware that adds its name to the request's id, and to the response or the problem that comes back.
  @Sendable private static func named(_ name: String) -> Middleware {
    { next in
      { request in
        let inner = Request(method: request.method, path: request.path, id: request.id + " " + name)
        do {
          let response = try await next(inner)
          return .text(String(decoding: response.body, as: UTF8.self) + " " + name)
        } catch let problem as Problem {
          throw Problem(status: problem.status, code: problem.code, detail: problem.detail + " " + name)
        }
      }
    }
  }

  @Sendable private static func refuse(_ next: @escaping Responder) -> Responder {
    { _ in throw Problem.notFound("refused") }
  }

  private static let router: Router = {
    var router = Router()
    let answer: Responder = { .text($0.id + " |") }
    router.on(.get, "/before", answer)
    router.group([named("a"), named("b")]) { router in
      router.on(.get, "/group", answer)
      router.group([named("c")]) { $0.on(.get, "/inner", answer) }
      router.group([refuse, named("c")]) { $0.on(.get, "/refused", answer) }
      router.on(.get, "/failing") { _ in throw Problem.notFound("failed") }
      router.on(.get, "/group/after", answer)
    }
    router.on(.get, "/after", answer)
    router.onImmediate(.get, "/immediate") { .text($0.id) }
    return router
  }()

  /// What the route of the path returns or throws.
  private func outcome(_ path: String) async throws -> String {
    guard case .route(let endpoint, _) = Self.router.match(.get, path.utf8.span) else { return "no route" }
    let request = Request(method: .get, path: path, id: "id")
    do {
      let response =
        switch endpoint.route.handler {
        case .immediate(let handler): try handler(request)
        case .asynchronous(let handler): try await handler(request)
        }
      return String(decoding: response.body, as: UTF8.self)
    } catch let problem as Problem {
      return "\(problem.status.code) \(problem.detail)"
    }
  }

  @Test(arguments: [
    ("/group", "id a b | b a"), ("/group/after", "id a b | b a"), ("/inner", "id a b c | c b a"),
    ("/before", "id |"), ("/after", "id |"), ("/immediate", "id"),
  ])
  func `the first middleware sees the request first and the response last, in its group alone`(
    path: String, expected: String
  ) async throws {
    #expect(try await outcome(path) == expected)
  }

  @Test func `an error passes through the middleware as a response does`() async throws {
    #expect(try await outcome("/failing") == "404 failed b a")
  }

  @Test func `a middleware that refuses a request keeps it from the middleware and the handler inside`()
    async throws
  {
    #expect(try await outcome("/refused") == "404 refused b a")
  }

  @Test func `a group adds its routes to those of the router`() {
    #expect(
      Self.router.routes.map(\.pattern) == [
        "/before", "/group", "/inner", "/refused", "/failing", "/group/after", "/after", "/immediate",
      ])
    #expect(Self.router.routes.map(\.index) == Array(0..<8))
  }
}
