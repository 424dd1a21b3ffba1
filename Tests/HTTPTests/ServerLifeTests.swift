import Foundation
import HTTP
import HTTPTypes
import TestSocket
import Testing

/// How connections, handlers and the server end.
@Suite(.timeLimit(.minutes(10))) struct ServerLifeTests {
  private static let getGate = "GET /gate HTTP/1.1\r\nHost: a\r\n\r\n"
  private static let getNow = "GET /now HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test func `a lost connection cancels its handler`() async throws {
    let fixture = try ServerFixture()
    let socket = try fixture.connect()
    try socket.send(Self.getGate)
    await fixture.gate.arrivals(1)
    socket.reset()
    await fixture.gate.cancellations(1)
    #expect(fixture.summaries.all.isEmpty)
  }

  @Test func `a client that closes its sending half while its request runs gets the response`() async throws {
    let fixture = try ServerFixture()
    let socket = try fixture.connect()
    try socket.send(Self.getGate)
    socket.finishSending()
    await fixture.gate.arrivals(1)
    fixture.gate.open()
    let responses = try WireResponse.all(in: try socket.receiveAll())
    // `receiveAll` returns when the server has closed the connection. The response may have `Connection: close` or not:
    // the end of the client's half can arrive before or after the gate opens.
    #expect(responses.map(\.text) == ["gate"])
  }

  @Test func `an incomplete request is refused when the client closes its sending half`() throws {
    let socket = try ServerFixture.shared.connect()
    try socket.send("GET /now HTTP/1.1\r\nHo")
    socket.finishSending()
    #expect(try WireResponse.all(in: try socket.receiveAll()).map(\.status) == [400])
  }

  @Test func `a handler beyond its deadline is cancelled, and the client gets 503 with Retry-After`()
    async throws
  {
    let fixture = try ServerFixture { $0.timeouts.handler = .milliseconds(50) }
    let socket = try fixture.connect()
    try socket.send(Self.getGate + "GET /now HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    let responses = try WireResponse.all(in: try socket.receiveAll())
    await fixture.gate.cancellations(1)
    #expect(responses.map(\.status) == [503, 200])
    #expect(responses[0].text.contains("\"code\":\"overloaded\""))
    #expect(responses[0]["Retry-After"] == "1")
  }

  @Test func `a head that does not end before its timeout gets 408`() throws {
    let fixture = try ServerFixture { $0.timeouts.head = .milliseconds(50) }
    let socket = try fixture.connect()
    try socket.send("GET / HTTP/1.1\r\n")
    let responses = try WireResponse.all(in: try socket.receiveAll())
    #expect(responses.map(\.status) == [408])
    #expect(responses[0].text.contains("\"code\":\"request_timeout\""))
  }

  @Test func `an idle connection is closed without a response`() throws {
    let fixture = try ServerFixture { $0.timeouts.idle = .milliseconds(50) }
    #expect(try fixture.connect().receiveAll().isEmpty)
  }

  @Test func `a slow reader gets all of its responses and delays no other client`() throws {
    let fixture = try ServerFixture { $0.eventLoops = 1 }
    let slow = try TestSocket(connectingTo: fixture.address, receiveBuffer: 65_536)
    let large = "GET /large/8000000 HTTP/1.1\r\nHost: a\r\n\r\n"
    try slow.send(large + large + "GET /now HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    // The only event loop is not blocked, and only the first of three responses has been made.
    let quick = try fixture.connect()
    try quick.send(Self.getNow)
    _ = try quick.receive(atMost: 10)
    #expect(fixture.summaries.all.filter { $0.route == "/large/{count}" }.count == 1)
    let responses = try WireResponse.all(in: try slow.receiveAll())
    #expect(responses.map(\.body.count) == [8_000_000, 8_000_000, 3])
  }

  @Test func `a client that never reads is disconnected at the write timeout`() async throws {
    let fixture = try ServerFixture { $0.timeouts.write = .milliseconds(50) }
    let socket = try TestSocket(connectingTo: fixture.address, receiveBuffer: 65_536)
    try socket.send("GET /large/8000000 HTTP/1.1\r\nHost: a\r\n\r\n")
    await fixture.server.shutdown(within: .seconds(60))
    // Shutdown waits for a response that is being sent, so the write timeout ended it, with a reset.
    #expect(throws: TestSocket.Failure.system("recv", ECONNRESET)) { try socket.receiveAll() }
  }

  @Test func `a client that disconnects without reading its response affects no other client`() throws {
    let fixture = try ServerFixture { $0.eventLoops = 1 }
    let other = try fixture.connect()
    do {
      let unread = try TestSocket(connectingTo: fixture.address, receiveBuffer: 4_096)
      try unread.send("GET /large/8000000 HTTP/1.1\r\nHost: a\r\n\r\n")
      _ = try unread.receive(exactly: 1)
      // The only event loop has sent as much as the kernel accepts.
      try other.send(Self.getNow)
      _ = try other.receive(exactly: 10)
      // Closing a socket with unread bytes resets its connection.
    }
    try other.send(Self.getNow)
    other.finishSending()
    let rest = try other.receiveAll()
    #expect(String(decoding: rest, as: UTF8.self).contains("HTTP/1.1 200 OK"))
  }

  @Test func `a connection beyond the limit gets 503 with Retry-After`() throws {
    let fixture = try ServerFixture { $0.limits.connections = 1 }
    let first = try fixture.connect()
    try first.send(Self.getNow)
    _ = try first.receive(atMost: 1)
    let responses = try WireResponse.all(in: try fixture.connect().receiveAll())
    #expect(responses.map(\.status) == [503])
    #expect(responses[0]["Connection"] == "close")
    #expect(responses[0]["Retry-After"] == "1")
  }

  @Test func `a stopping server finishes its running requests and starts no other`() async throws {
    let fixture = try ServerFixture()
    let idle = try fixture.connect()
    try idle.send(Self.getNow)
    var received = try idle.receive()
    #expect(WireResponse.first(in: &received)?.text == "now")
    let running = try fixture.connect()
    try running.send(Self.getGate + Self.getNow)
    await fixture.gate.arrivals(1)
    async let stopped: Void = fixture.server.shutdown(within: .seconds(10))
    #expect(try idle.receiveAll().isEmpty)
    #expect(throws: TestSocket.Failure.self) { try fixture.connect() }
    fixture.gate.open()
    let responses = try WireResponse.all(in: try running.receiveAll())
    #expect(responses.map(\.text) == ["gate"])
    #expect(responses.first?["Connection"] == "close")
    running.finishSending()
    withExtendedLifetime(running) {}
    await stopped
    #expect(fixture.server.connectionCount == 0)
  }

  @Test func `a stopping server cancels its running requests at the timeout`() async throws {
    let fixture = try ServerFixture()
    let socket = try fixture.connect()
    try socket.send(Self.getGate)
    await fixture.gate.arrivals(1)
    await fixture.server.shutdown(within: .milliseconds(50))
    await fixture.gate.cancellations(1)
    #expect(try socket.receiveAll().isEmpty)
  }
}
