import Foundation
public import Platform

/// One end of a TCP connection.
public struct SocketAddress: Sendable, Hashable {
  /// The numeric IPv4 or IPv6 address. An IPv4 client of an IPv6 socket (`::ffff:192.0.2.1`) has its IPv4 address.
  public let host: String
  /// The port.
  public let port: UInt16

  /// An address from its parts.
  public init(host: String, port: UInt16) {
    self.host = host
    self.port = port
  }
}

extension SocketAddress: CustomStringConvertible {
  /// `192.0.2.1:3000` or `[2001:db8::1]:3000`.
  public var description: String {
    host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
  }
}

extension SocketAddress {
  /// The address in a `sockaddr_storage`; nil if it is neither IPv4 nor IPv6.
  init?(_ storage: sockaddr_storage) {
    guard let address = withUnsafeBytes(of: storage, { IPAddress(socketAddress: $0) }) else { return nil }
    // The port has the same place in both forms.
    let port = withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in.self).sin_port }
    self.init(host: address.description, port: UInt16(bigEndian: port))
  }

  /// The local address of a socket.
  static func local(of descriptor: Int32) throws(SocketError) -> SocketAddress {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let status = withUnsafeMutablePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
    }
    guard status == 0 else { throw .last("getsockname") }
    guard let address = SocketAddress(storage) else {
      throw SocketError(operation: "getsockname", code: EAFNOSUPPORT)
    }
    return address
  }
}

extension IPAddress {
  /// The IP address of one end of a connection, without its scope; `::` if the host is a name.
  public init(_ end: SocketAddress) {
    self = IPAddress(end.host.prefix { $0 != "%" }) ?? IPAddress(bits: 0)
  }
}

/// A system call on a socket that failed.
public struct SocketError: Error, Sendable, Hashable {
  /// The operation that failed, such as `bind 127.0.0.1:80`.
  public let operation: String
  /// The value of `errno`, or the negative value of `getaddrinfo`.
  public let code: Int32

  /// An error of an operation with its code.
  public init(operation: String, code: Int32) {
    self.operation = operation
    self.code = code
  }

  /// The last error of this thread. Call it before any other call can change `errno`.
  static func last(_ operation: @autoclosure () -> String) -> SocketError {
    let code = errno
    return SocketError(operation: operation(), code: code)
  }
}

extension SocketError: CustomStringConvertible {
  /// `bind 127.0.0.1:80: Permission denied`.
  public var description: String {
    let text = code < 0 ? gai_strerror(code) : UnsafePointer(strerror(code))
    return "\(operation): \(text.map { String(cString: $0) } ?? "error \(code)")"
  }
}
