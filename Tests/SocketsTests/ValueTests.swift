import Foundation
import Platform
import Synchronization
import Testing

@testable import Sockets

@Suite struct OutboundQueueTests {
  @Test func `the outbound queue keeps the order of bytes, however they are split`() {
    var queue = OutboundQueue()
    var output: [UInt8] = []
    var next: UInt8 = 0
    for size in [1, 7, 300, 2, 0, 90, 1000] {
      let chunk = (0..<size).map { _ -> UInt8 in
        next &+= 1
        return next
      }
      chunk.withUnsafeBytes { queue.append($0) }
      queue.consume { available in
        let taken = available.prefix(size / 2 + 1)
        output += taken
        return taken.count
      }
    }
    queue.consume { available in
      output += available
      return available.count
    }
    #expect(output == (0..<1400).map { UInt8(truncatingIfNeeded: $0 + 1) })
    #expect(queue.isEmpty)
  }
}

@Suite struct AcceptTests {
  @Test func `accept errors tell exhausted resources from one lost connection`() {
    for code in [EMFILE, ENFILE, ENOBUFS, ENOMEM, EBADF] {
      guard case .exhausted(let error) = AcceptResult(failure: SocketError(operation: "accept", code: code))
      else {
        Issue.record("\(code) is not exhaustion")
        continue
      }
      #expect(error.code == code)
    }
    for code in [ECONNABORTED, EINTR, EPROTO, ENETDOWN, EHOSTUNREACH] {
      guard case .lost = AcceptResult(failure: SocketError(operation: "accept", code: code)) else {
        Issue.record("\(code) is not a lost connection")
        continue
      }
    }
    guard case .none = AcceptResult(failure: SocketError(operation: "accept", code: EAGAIN)) else {
      Issue.record("EAGAIN is not the end")
      return
    }
  }

  @Test func `the accept backoff grows to a second and is reset by success`() {
    var backoff = Backoff.accepting
    let rests = (0..<8).map { _ in backoff.failed() }
    #expect(rests.first == .milliseconds(20))
    #expect(zip(rests, rests.dropFirst()).allSatisfy { $0 <= $1 })
    #expect(rests.last == .seconds(1))
    backoff.succeeded()
    #expect(backoff.failed() == .milliseconds(20))
  }
}

@Suite struct ConnectionLimiterTests {
  private func address(_ host: String, port: UInt16 = 1) -> SocketAddress {
    SocketAddress(host: host, port: port)
  }

  @Test
  func `the connection limiter admits no more than its limit, and a released connection frees its place`() {
    let limiter = ConnectionLimiter(maximum: 2, maximumPerAddress: nil)
    #expect(limiter.admit(address("192.0.2.1")))
    #expect(limiter.admit(address("192.0.2.1")))
    #expect(!limiter.admit(address("192.0.2.2")))
    limiter.release(address("192.0.2.1"))
    #expect(limiter.admit(address("192.0.2.2")))
    #expect(limiter.count == 2)
  }

  @Test func `the connection limiter limits the connections of one address`() {
    let limiter = ConnectionLimiter(maximum: 10, maximumPerAddress: 2)
    #expect(limiter.admit(address("192.0.2.1", port: 1)))
    #expect(limiter.admit(address("192.0.2.1", port: 2)))
    #expect(!limiter.admit(address("192.0.2.1", port: 3)))
    #expect(limiter.admit(address("192.0.2.2")))
    limiter.release(address("192.0.2.1", port: 1))
    #expect(limiter.admit(address("192.0.2.1", port: 4)))
  }

  @Test func `the connection limiter counts the addresses of one IPv6 slash 64 as one`() {
    let limiter = ConnectionLimiter(maximum: 10, maximumPerAddress: 1)
    #expect(limiter.admit(address("2001:db8:0:1::1")))
    #expect(!limiter.admit(address("2001:db8:0:1:ffff::2")))
    #expect(limiter.admit(address("2001:db8:0:2::1")))
    #expect(limiter.admit(address("fe80::1%eth0")))
    #expect(!limiter.admit(address("fe80::2%eth1")))
  }

  @Test func `an action for an empty connection limiter runs once`() {
    let limiter = ConnectionLimiter(maximum: 2, maximumPerAddress: nil)
    let heard = Mutex(0)
    limiter.whenEmpty { heard.withLock { $0 += 1 } }
    #expect(heard.withLock { $0 } == 1)
    _ = limiter.admit(address("a"))
    _ = limiter.admit(address("b"))
    limiter.whenEmpty { heard.withLock { $0 += 1 } }
    limiter.release(address("a"))
    #expect(heard.withLock { $0 } == 1)
    limiter.release(address("b"))
    #expect(heard.withLock { $0 } == 2)
    _ = limiter.admit(address("a"))
    limiter.release(address("a"))
    #expect(heard.withLock { $0 } == 2)
  }
}

@Suite struct MonotonicInstantTests {
  private let start = MonotonicInstant(nanoseconds: 5_000_000_000)

  @Test func `adding a duration to an instant is exact to the nanosecond and does not overflow`() {
    #expect(start.advanced(by: .milliseconds(1500)).nanoseconds == 6_500_000_000)
    #expect(start.advanced(by: .nanoseconds(1)).nanoseconds == 5_000_000_001)
    #expect(start.advanced(by: .seconds(-3)) == start)
    #expect(start.advanced(by: .seconds(Int64.max / 2)) == .distantFuture)
    #expect(MonotonicInstant.distantFuture.advanced(by: .seconds(1)) == .distantFuture)
  }

  @Test func `the duration between two instants is never negative`() {
    #expect(start.advanced(by: .seconds(2)).duration(since: start) == .seconds(2))
    #expect(start.duration(since: start.advanced(by: .seconds(2))) == .zero)
  }
}

@Suite struct SocketAddressTests {
  @Test(arguments: [
    ("192.0.2.1", "192.0.2.1:80"), ("2001:db8::1", "[2001:db8::1]:80"),
  ])
  func `a socket address is written like a URL's authority`(host: String, text: String) {
    #expect(SocketAddress(host: host, port: 80).description == text)
  }
}
