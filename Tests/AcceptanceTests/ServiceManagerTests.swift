import Foundation
import Testing

@testable import receiptd

/// What a service manager hears, with a socket of its kind.
@Suite struct ServiceManagerTests {
  /// A datagram socket with a name, as a service manager has one.
  private final class Listener {
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
      var patience = timeval(tv_sec: 20, tv_usec: 0)
      setsockopt(
        descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    /// The next datagram; nothing where none comes.
    func hear() -> String {
      var bytes = [UInt8](repeating: 0, count: 256)
      let count = recv(descriptor, &bytes, bytes.count, 0)
      return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
    }
  }

  @Test(arguments: [true, false])
  func `each state is a datagram of its own, to a path and to an abstract name`(isAbstract: Bool) throws {
    let path = "\(FileManager.default.temporaryDirectory.path)/notify-\(UUID().uuidString)"
    let listener = try Listener(name: isAbstract ? [0] + Array(path.utf8) : Array(path.utf8))
    defer { unlink(path) }
    let manager = ServiceManager(socket: isAbstract ? "@" + path : path)
    manager.tell(.ready)
    manager.tell(.reloading)
    manager.tell(.stopping)
    #expect((0..<3).map { _ in listener.hear() } == ["READY=1", "RELOADING=1", "STOPPING=1"])
  }

  @Test func `a name that is none, and a manager that is gone, hold up nobody`() {
    for name in [nil, "", "@", "/", "relative", "/nowhere/at/all", "/" + String(repeating: "x", count: 200)] {
      ServiceManager(socket: name).tell(.ready)
    }
  }
}
