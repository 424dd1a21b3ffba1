import Foundation
import TestProcess
import Testing

@testable import receiptd

/// The messages to the service manager, received on a datagram socket.
@Suite struct ServiceManagerTests {
  /// A named datagram socket like a service manager's.
  private final class Listener: Sendable {
    private let descriptor: Int32

    /// - Parameter name: the bytes of the name, of which the first is zero for an abstract one.
    init(name: [UInt8]) throws {
      descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
      try #require(descriptor >= 0)
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
      let length = socklen_t(2 + name.count)
      let result = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
      }
      try #require(result == 0)
      var timeout = timeval(tv_sec: 120, tv_usec: 0)
      setsockopt(
        descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    /// The next datagram; nil if none arrives.
    func hear() -> String {
      var bytes = [UInt8](repeating: 0, count: 256)
      let count = recv(descriptor, &bytes, bytes.count, 0)
      return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
    }
  }

  @Test(arguments: [true, false])
  func `each service state is a datagram of its own, to a path and to an abstract socket name`(
    isAbstract: Bool
  ) throws {
    let path = "\(FileManager.default.temporaryDirectory.path)/notify-\(UUID().uuidString)"
    let listener = try Listener(name: isAbstract ? [0] + Array(path.utf8) : Array(path.utf8))
    defer { unlink(path) }
    let manager = ServiceManager(socket: isAbstract ? "@" + path : path)
    #expect([.ready, .reloading, .stopping].map { manager.send($0) } == [true, true, true])
    #expect((0..<3).map { _ in listener.hear() } == ["READY=1", "RELOADING=1", "STOPPING=1"])
  }

  @Test(arguments: [
    nil, "", "@", "/", "relative", "/nowhere/at/all", "/" + String(repeating: "x", count: 200),
  ])
  func `a service state for a socket that does not exist is dropped`(name: String?) {
    #expect(!ServiceManager(socket: name).send(.ready))
  }

  @Test(.timeLimit(.minutes(1)))
  func `a service manager that does not read its socket does not block the server`()
    async throws
  {
    let name = "@receiptd-\(UUID().uuidString)"
    let listener = try Listener(name: [0] + Array(name.dropFirst().utf8))
    let manager = ServiceManager(socket: name)
    // The kernel queues a few datagrams of a reader that is busy (net.unix.max_dgram_qlen); the rest is dropped.
    let taken = try await onOwnThread {
      var taken = 0
      while taken < 100_000, manager.send(.alive) { taken += 1 }
      return taken
    }
    #expect((1..<100_000).contains(taken))
    #expect(!manager.send(.alive))
    #expect(listener.hear() == "WATCHDOG=1")
    #expect(manager.send(.alive))
  }

  @Test(
    arguments: [
      ([:], nil), (["WATCHDOG_USEC": "30000000"], .seconds(30)), (["WATCHDOG_USEC": "0"], nil),
      (["WATCHDOG_USEC": "+5"], nil), (["WATCHDOG_USEC": ""], nil), (["WATCHDOG_PID": "\(getpid())"], nil),
      (["WATCHDOG_USEC": "1500", "WATCHDOG_PID": "\(getpid())"], .microseconds(1_500)),
      (["WATCHDOG_USEC": "1500", "WATCHDOG_PID": "1"], nil),
      (["WATCHDOG_USEC": "1500", "WATCHDOG_PID": "x"], nil),
    ] as [([String: String], Duration?)])
  func `WATCHDOG_USEC and WATCHDOG_PID set the watchdog's timeout`(
    environment: [String: String], timeout: Duration?
  ) {
    #expect(Watchdog(environment)?.timeout == timeout)
  }

  @Test(.timeLimit(.minutes(10)))
  func `a running server sends READY, WATCHDOG and STOPPING to the service manager`()
    async throws
  {
    let path = "\(FileManager.default.temporaryDirectory.path)/notify-\(UUID().uuidString)"
    let listener = try Listener(name: Array(path.utf8))
    defer { unlink(path) }
    try await withStage(environment: ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "150000"]) { stage in
      let first = try await onOwnThread { (0..<3).map { _ in listener.hear() } }
      #expect(first == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"])
      #expect(await stage.receiptd.stop() == 0)
      let last = try await onOwnThread {
        var last = listener.hear()
        while last == "WATCHDOG=1" { last = listener.hear() }
        return last
      }
      #expect(last == "STOPPING=1")
    }
  }
}
