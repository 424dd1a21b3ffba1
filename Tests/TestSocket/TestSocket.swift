import Foundation
public import Sockets

/// The client end of a connection, with blocking calls that fail after a minute.
public final class TestSocket: Sendable {
  /// A failure that the test did not expect.
  public enum Failure: Error, Equatable {
    /// A system call failed with this `errno`.
    case system(String, Int32)
    /// No bytes arrived for a minute.
    case timedOut
  }

  /// The socket, which `deinit` closes.
  public let descriptor: Int32

  /// Takes ownership of a socket.
  public init(adopting descriptor: Int32) {
    self.descriptor = descriptor
    var timeout = timeval(tv_sec: 60, tv_usec: 0)
    setsockopt(
      descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    setsockopt(
      descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
  }

  /// Connects over TCP.
  /// - Parameter receiveBuffer: the size of the kernel's receive buffer; by default it grows to megabytes.
  public convenience init(connectingTo address: SocketAddress, receiveBuffer: Int32? = nil) throws {
    let isIPv6 = address.host.contains(":")
    let descriptor = socket(isIPv6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    guard descriptor >= 0 else { throw Failure.system("socket", errno) }
    self.init(adopting: descriptor)
    if var receiveBuffer {
      setsockopt(
        descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, socklen_t(MemoryLayout<Int32>.size))
    }
    var status: Int32 = -1
    if isIPv6 {
      var target = sockaddr_in6()
      target.sin6_family = sa_family_t(AF_INET6)
      target.sin6_port = address.port.bigEndian
      inet_pton(AF_INET6, address.host, &target.sin6_addr)
      status = withUnsafePointer(to: target) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in6>.size))
        }
      }
    } else {
      var target = sockaddr_in()
      target.sin_family = sa_family_t(AF_INET)
      target.sin_port = address.port.bigEndian
      inet_pton(AF_INET, address.host, &target.sin_addr)
      status = withUnsafePointer(to: target) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
    }
    guard status == 0 else { throw Failure.system("connect", errno) }
  }

  deinit { close(descriptor) }

  /// A socket pair: one end as a `TestSocket`, and the descriptor of the other end.
  public static func pair() throws -> (TestSocket, Int32) {
    var descriptors: [Int32] = [0, 0]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &descriptors) == 0 else {
      throw Failure.system("socketpair", errno)
    }
    return (TestSocket(adopting: descriptors[0]), descriptors[1])
  }

  /// Sends all of the bytes.
  public func send(_ bytes: [UInt8]) throws {
    var sent = 0
    while sent < bytes.count {
      let count = bytes[sent...].withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { throw Failure.system("send", errno) }
      sent += count
    }
  }

  /// Sends all of the text.
  public func send(_ text: String) throws { try send(Array(text.utf8)) }

  /// Closes the sending half; the other end reads an end of file.
  public func finishSending() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

  /// Ends the connection with a reset, as a crashed client's system does.
  public func reset() {
    var linger = linger(l_onoff: 1, l_linger: 0)
    setsockopt(
      descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
    var target = sockaddr()
    target.sa_family = sa_family_t(AF_UNSPEC)
    // connect(2) to AF_UNSPEC resets the connection and keeps the descriptor for `deinit`.
    _ = connect(descriptor, &target, socklen_t(MemoryLayout<sockaddr>.size))
  }

  /// The received bytes, at most `count`; empty at the end of file.
  public func receive(atMost count: Int = 65_536) throws -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: count)
    let received = recv(descriptor, &buffer, count, 0)
    guard received >= 0 else {
      throw errno == EAGAIN ? Failure.timedOut : Failure.system("recv", errno)
    }
    return Array(buffer[..<received])
  }

  /// The received bytes until the end of file.
  public func receiveAll() throws -> [UInt8] {
    var all: [UInt8] = []
    while true {
      let more = try receive()
      guard !more.isEmpty else { return all }
      all += more
    }
  }

  /// Exactly this many bytes, or fewer if the end of file comes first.
  public func receive(exactly count: Int) throws -> [UInt8] {
    var all: [UInt8] = []
    while all.count < count {
      let more = try receive(atMost: count - all.count)
      guard !more.isEmpty else { return all }
      all += more
    }
    return all
  }
}
