import Foundation
import Platform
import Synchronization
import TestSocket
import Testing

@testable import Sockets

@Suite struct ListenerTests {
  /// Echoes received bytes, and closes after the peer closes.
  private final class Echo: ConnectionHandler {
    func connection(_ connection: Connection, received bytes: UnsafeRawBufferPointer) {
      connection.send(bytes)
    }
    func connectionReachedEnd(_ connection: Connection) { connection.close(because: .finished) }
    func connectionFlushed(_ connection: Connection) {}
    func connection(_ connection: Connection, deadlinePassedAt now: MonotonicInstant) {}
    func connection(_ connection: Connection, closedBecause reason: CloseReason) {}
  }

  private static let echoing = Listener.Events { $0.start(handler: Echo()) }

  @Test(arguments: ["127.0.0.1", "::1"])
  func `a listener listens on a port that the kernel chooses`(host: String) async throws {
    let listener = try Listener(.init(host: host, port: 0), loops: EventLoopGroup(), events: Self.echoing)
    #expect(listener.address.host == host)
    #expect(listener.address.port > 0)
    let peer = try TestSocket(connectingTo: listener.address)
    try peer.send("hello")
    #expect(try peer.receive(exactly: 5) == Array("hello".utf8))
  }

  @Test func `a dual-stack listener reports an IPv4 client with its IPv4 address`() async throws {
    let seen = Mutex<[SocketAddress]>([])
    let events = Listener.Events { connection in
      seen.withLock { $0.append(connection.remoteAddress) }
      connection.start(handler: Echo())
    }
    let listener = try Listener(.init(host: "::", port: 0), loops: EventLoopGroup(), events: events)
    let peer = try TestSocket(
      connectingTo: SocketAddress(host: "127.0.0.1", port: listener.address.port))
    try peer.send("x")
    _ = try peer.receive(exactly: 1)
    #expect(seen.withLock { $0.map(\.host) } == ["127.0.0.1"])
  }

  @Test func `accepted connections have TCP_NODELAY`() async throws {
    let delays = Mutex<[Int32]>([])
    let events = Listener.Events { connection in
      var value: Int32 = -1
      var length = socklen_t(MemoryLayout<Int32>.size)
      getsockopt(connection.descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &value, &length)
      delays.withLock { $0.append(value) }
      connection.start(handler: Echo())
    }
    let listener = try Listener(.init(host: "127.0.0.1", port: 0), loops: EventLoopGroup(), events: events)
    let peer = try TestSocket(connectingTo: listener.address)
    try peer.send("x")
    _ = try peer.receive(exactly: 1)
    #expect(delays.withLock { $0 } == [1])
  }

  @Test func `a listener on an address in use fails with an error that names the address`() throws {
    let first = try Listener(
      .init(host: "127.0.0.1", port: 0), loops: EventLoopGroup(count: 1), events: Self.echoing)
    let error = #expect(throws: SocketError.self) {
      try Listener(
        .init(host: "127.0.0.1", port: first.address.port), loops: EventLoopGroup(count: 1),
        events: Self.echoing)
    }
    #expect(error?.code == EADDRINUSE)
    #expect(error?.description.contains("127.0.0.1:\(first.address.port)") == true)
  }

  @Test func `a listener on a host that does not resolve fails`() {
    #expect(throws: SocketError.self) {
      try Listener(
        .init(host: "256.0.0.1.invalid", port: 0), loops: EventLoopGroup(count: 1), events: Self.echoing)
    }
  }

  @Test func `a listener that runs out of descriptors accepts connections again later`() async throws {
    let failures = Mutex(3)
    let troubles = Mutex<[Int32]>([])
    var events = Self.echoing
    events.onAcceptError = { error in troubles.withLock { $0.append(error.code) } }
    let listener = try Listener(
      .init(host: "127.0.0.1", port: 0), loops: EventLoopGroup(count: 1), events: events
    ) { descriptor in
      let fails = failures.withLock { left in
        defer { left -= 1 }
        return left > 0
      }
      return fails
        ? AcceptResult(failure: SocketError(operation: "accept", code: EMFILE))
        : acceptFromSystem(descriptor)
    }
    let peer = try TestSocket(connectingTo: listener.address)
    try peer.send("hello")
    #expect(try peer.receive(exactly: 5) == Array("hello".utf8))
    #expect(troubles.withLock { $0 } == [EMFILE, EMFILE, EMFILE])
  }

  @Test func `a connection beyond the listener's limit is refused, closed and no longer counted`()
    async throws
  {
    var configuration = Listener.Configuration(host: "127.0.0.1", port: 0)
    configuration.maximumConnections = 1
    var events = Self.echoing
    events.onRefusal = { _ in Array("full".utf8) }
    let listener = try Listener(configuration, loops: EventLoopGroup(count: 1), events: events)
    let first = try TestSocket(connectingTo: listener.address)
    try first.send("x")
    _ = try first.receive(exactly: 1)
    #expect(try TestSocket(connectingTo: listener.address).receiveAll() == Array("full".utf8))
    first.finishSending()
    #expect(try first.receiveAll().isEmpty)
    await listener.allConnectionsEnded()
    let third = try TestSocket(connectingTo: listener.address)
    try third.send("y")
    #expect(try third.receive(exactly: 1) == Array("y".utf8))
  }

  @Test func `a stopped listener refuses new connections, and open ones continue`() async throws {
    let listener = try Listener(
      .init(host: "127.0.0.1", port: 0), loops: EventLoopGroup(count: 1), events: Self.echoing)
    let peer = try TestSocket(connectingTo: listener.address)
    try peer.send("x")
    _ = try peer.receive(exactly: 1)
    await withCheckedContinuation { stopped in listener.stop { stopped.resume() } }
    #expect(throws: TestSocket.Failure.system("connect", ECONNREFUSED)) {
      try TestSocket(connectingTo: listener.address)
    }
    try peer.send("y")
    #expect(try peer.receive(exactly: 1) == Array("y".utf8))
    #expect(listener.connectionCount == 1)
    peer.finishSending()
    await listener.allConnectionsEnded()
    #expect(listener.connectionCount == 0)
  }
}
