import Foundation
public import Platform

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
