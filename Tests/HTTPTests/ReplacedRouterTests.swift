import HTTP
import HTTPTypes
import TestSocket
import Testing

/// The replacement of a running server's router.
@Suite(.timeLimit(.minutes(10))) struct ReplacedRouterTests {
  @Test func `a running request finishes with the old router, and later requests use the new one`()
    async throws
  {
    let fixture = try ServerFixture()
    let socket = try fixture.connect()
    try socket.send("GET /gate HTTP/1.1\r\nHost: a\r\n\r\n")
    await fixture.gate.arrivals(1)

    var other = Router()
    other.onImmediate(.get, "/now") { _ in .text("another") }
    await fixture.server.replaceRouter(other)
    fixture.gate.open()
    try socket.send(
      "GET /now HTTP/1.1\r\nHost: a\r\n\r\nGET /gate HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    let responses = try WireResponse.all(in: try socket.receiveAll())
    #expect(responses.map(\.status) == [200, 200, 404])
    #expect(responses.prefix(2).map(\.text) == ["gate", "another"])
  }
}
