import Foundation
import Platform
import TestSocket
import Testing

@testable import Sockets

@Suite(.timeLimit(.minutes(10))) struct ConnectionTests {
  @Test func `received bytes reach the connection's handler, and sent bytes reach the peer`() async throws {
    let (peer, probe) = try await Probe.connect()
    try peer.send("ping")
    #expect(await probe.next() == .received(Array("ping".utf8)))
    await probe.onLoop { connection in
      #expect(Array("pong".utf8).withUnsafeBytes { connection.send($0) })
    }
    #expect(try peer.receive() == Array("pong".utf8))
  }

  @Test func `a peer that closes its sending half can still receive a response`() async throws {
    let (peer, probe) = try await Probe.connect()
    try peer.send("question")
    peer.finishSending()
    #expect(await probe.next() == .received(Array("question".utf8)))
    #expect(await probe.next() == .ended)
    await probe.onLoop { connection in
      Array("answer".utf8).withUnsafeBytes { _ = connection.send($0) }
      connection.finishSending()
    }
    #expect(try peer.receiveAll() == Array("answer".utf8))
  }

  @Test func `bytes that the socket does not accept are sent when the peer reads`() async throws {
    let (peer, probe) = try await Probe.connect()
    let large = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
    await probe.onLoop { connection in
      #expect(!large.withUnsafeBytes { connection.send($0) })
      #expect(connection.queuedByteCount > Connection.highWaterMark)
      connection.finishSending()
    }
    #expect(try peer.receiveAll() == large)
    #expect(await probe.next() == .drained)
  }

  @Test func `a connection does not read while its peer does not read the output`() async throws {
    let (peer, probe) = try await Probe.connect()
    let large = [UInt8](repeating: 1, count: 2_000_000)
    await probe.onLoop { connection in large.withUnsafeBytes { _ = connection.send($0) } }
    try peer.send("more")
    #expect(await probe.onLoop { !$0.isReading })
    #expect(probe.isQuiet)
    #expect(try peer.receive(exactly: large.count).count == large.count)
    var events = [await probe.next(), await probe.next()]
    if events.first == .received(Array("more".utf8)) { events.reverse() }
    #expect(events == [.drained, .received(Array("more".utf8))])
    #expect(await probe.onLoop { $0.isReading })
  }

  @Test func `a handler can pause and resume reading`() async throws {
    let (peer, probe) = try await Probe.connect()
    await probe.onLoop { $0.pauseReading() }
    try peer.send("later")
    #expect(await probe.onLoop { !$0.isReading })
    #expect(probe.isQuiet)
    await probe.onLoop { $0.resumeReading() }
    #expect(await probe.next() == .received(Array("later".utf8)))
  }

  @Test func `a peer's hang-up is reported after its last bytes`() async throws {
    let (peer, probe) = try await Probe.connect()
    await probe.onLoop { $0.pauseReading() }
    let last = [UInt8](repeating: 7, count: 100_000)
    try peer.send(last)
    _ = shutdown(peer.descriptor, Int32(SHUT_RDWR))
    await probe.onLoop { $0.resumeReading() }
    var received: [UInt8] = []
    while case .received(let bytes) = await probe.next() { received += bytes }
    #expect(received == last)
    await probe.onLoop { #expect(!$0.isReading) }
  }

  @Test func `a handler that pauses reading can read the rest after a hang-up`() async throws {
    let (peer, probe) = try await Probe.connect()
    await probe.onLoop { $0.pauseReading() }
    try peer.send([UInt8](repeating: 7, count: 100_000))
    _ = shutdown(peer.descriptor, Int32(SHUT_RDWR))
    probe.pauseAfterReading()
    for count in [65_536, 34_464] {
      await probe.onLoop { $0.resumeReading() }
      #expect(await probe.next() == .received([UInt8](repeating: 7, count: count)))
    }
    await probe.onLoop { $0.resumeReading() }
    #expect(await probe.next() == .ended)
  }

  @Test func `sending to a lost connection closes it with EPIPE and does not end the process`() async throws {
    let (peer, probe) = try await Probe.connect()
    await probe.onLoop { $0.pauseReading() }
    _ = shutdown(peer.descriptor, Int32(SHUT_RD))
    await probe.onLoop { connection in
      [UInt8](repeating: 0, count: 10).withUnsafeBytes { _ = connection.send($0) }
      #expect(!connection.isOpen)
    }
    #expect(await probe.next() == .released)
    #expect(await probe.next() == .closed(.failed(EPIPE)))
  }

  // The peer disconnects before, while or after Dispatch starts to watch the socket, so the test runs often.
  @Test(arguments: 0..<50)
  func `a client that disconnects with unread responses closes only its connection`(_: Int) async throws {
    let (peer, probe) = try await Probe.connect()
    await probe.onLoop { connection in
      [UInt8](repeating: 0, count: 2_000_000).withUnsafeBytes { _ = connection.send($0) }
      #expect(!connection.isReading)
    }
    _ = shutdown(peer.descriptor, Int32(SHUT_RDWR))
    #expect(await probe.next() == .released)
    #expect(await probe.next() == .closed(.failed(EPIPE)))
  }

  @Test func `a connection closes once, with the first reason, after the call that closed it`() async throws {
    let (peer, probe) = try await Probe.connect()
    await probe.onLoop { connection in
      connection.close(because: .finished)
      connection.close(because: .shutdown)
      #expect(Array("lost".utf8).withUnsafeBytes { connection.send($0) })
    }
    #expect(await probe.next() == .released)
    #expect(await probe.next() == .closed(.finished))
    #expect(try peer.receiveAll().isEmpty)
    #expect(probe.isQuiet)
  }

  @Test func `closing a connection closes its descriptor even while both directions are blocked`()
    async throws
  {
    let (peer, probe) = try await Probe.connect()
    await probe.onLoop { connection in
      [UInt8](repeating: 0, count: 2_000_000).withUnsafeBytes { _ = connection.send($0) }
      connection.pauseReading()
      connection.close(because: .shutdown)
    }
    #expect(await probe.next() == .released)
    #expect(await probe.next() == .closed(.shutdown))
    // The end of file comes only when every descriptor of the other end is closed.
    #expect(try peer.receiveAll().count < 2_000_000)
  }

  @Test func `a connection's deadline passes once and can be moved earlier and later`() async throws {
    let (peer, probe) = try await Probe.connect()
    defer { withExtendedLifetime(peer) {} }
    let now = MonotonicInstant.now
    await probe.onLoop { connection in
      connection.deadline = now.advanced(by: .seconds(60))
      connection.deadline = now.advanced(by: .milliseconds(1))
      connection.deadline = now.advanced(by: .milliseconds(120))
    }
    guard case .deadline(let passed) = await probe.next() else {
      Issue.record("Something else came first")
      return
    }
    #expect(passed >= now.advanced(by: .milliseconds(120)))
    await probe.onLoop { #expect($0.deadline == nil) }
  }
}
