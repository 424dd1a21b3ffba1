import HTTP
import HTTPTypes
import TestSocket
import Testing

/// The router's `Cache-Control`, for every response without one of its own.
@Suite struct CacheControlTests {
  private static let router: Router = {
    var router = Router(cacheControl: "no-store")
    router.onImmediate(.get, "/own") { _ in Response(headers: [.cacheControl: "public, max-age=60"]) }
    router.onImmediate(.get, "/default") { _ in .text("default") }
    router.on(.get, "/failing") { _ in throw Problem.notFound() }
    return router
  }()

  @Test(arguments: [
    ("GET /default", 200, "no-store"), ("GET /own", 200, "public, max-age=60"),
    ("GET /failing", 404, "no-store"),
    ("GET /nowhere", 404, "no-store"), ("POST /own", 405, "no-store"), ("OPTIONS /own", 204, "no-store"),
    ("GET /a b", 400, "no-store"), ("CONNECT a:1", 501, "no-store"),
  ])
  func `a response has its own Cache-Control, or the router's`(
    start: String, status: Int, expected: String
  ) async throws {
    let fixture = try ServerFixture()
    await fixture.server.replaceRouter(Self.router)
    let text = "\(start) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    let answer = try #require(try fixture.exchange(text).first)
    #expect(answer.status == status)
    #expect(answer["Cache-Control"] == expected)
  }

  @Test func `a router without Cache-Control adds none to its responses`() throws {
    let fixture = try ServerFixture()
    let answer = try fixture.exchange("GET /now HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    #expect(answer.map { $0["Cache-Control"] } == [nil])
  }
}
