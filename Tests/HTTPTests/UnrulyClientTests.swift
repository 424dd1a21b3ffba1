import Foundation
import Platform
import Sockets
import TestSocket
import Testing

@testable import HTTP

/// Clients over real sockets that send partial requests, stop reading and disconnect in random order.
@Suite(.timeLimit(.minutes(10))) struct UnrulyClientTests {
  private static let get = "HTTP/1.1\r\nHost: a\r\n\r\n"
  private static let whatTheySend = [
    "GET /now \(get)", "GET /later \(get)", "GET /secret/later \(get)", "GET /large/3000000 \(get)",
    String(repeating: "GET /large/30000 \(get)", count: 20),
    String(repeating: "GET /now \(get)", count: 3_000),
    "GET /now HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 12_000),
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n"
      + String(repeating: "x", count: 400_000),
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", "abc", "\r\n\r\n",
    "GET /now HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET /hang-up/later \(get)",
  ].map { Array($0.utf8) }

  @Test(arguments: 1...12) func `misbehaving clients delay no other client and leave no memory behind`(
    seed: Int
  )
    async throws
  {
    let fixture = try ServerFixture {
      $0.eventLoops = 2
      $0.limits.bufferedBytes = 4_000_000
      $0.timeouts.write = .milliseconds(300)
    }
    var chance = SplitMix64(state: UInt64(seed))
    var clients: [TestSocket] = []
    for _ in 0..<400 {
      if clients.count < 30 {
        let receiveBuffer: Int32? = Bool.random(using: &chance) ? 4_096 : nil
        let client = try TestSocket(connectingTo: fixture.address, receiveBuffer: receiveBuffer)
        _ = fcntl(client.descriptor, F_SETFL, O_NONBLOCK)
        clients.append(client)
      }
      let index = Int.random(in: clients.indices, using: &chance)
      switch Int.random(in: 0..<10, using: &chance) {
      case 0...5: try? clients[index].send(Self.whatTheySend.randomElement(using: &chance) ?? [])
      case 6: _ = try? clients[index].receive(atMost: Int.random(in: 1...100_000, using: &chance))
      case 7: clients[index].finishSending()
      case 8: clients.remove(at: index).reset()
      default: clients.remove(at: index)
      }
    }
    let other = try fixture.connect()
    try other.send("GET /later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    #expect(try WireResponse.all(in: try other.receiveAll()).map(\.status) == [200])
    clients.removeAll()
    // Returns when the last connection is closed, which may be before its loop has removed it.
    await fixture.server.shutdown(within: .seconds(60))
    await fixture.server.waitUntilResponsive()
    #expect(await fixture.server.bufferedBytes() == [0, 0])
  }
}
