import Glibc

extension SocketAddress {
  /// The address in the system's form, or nil if it is of neither IP family.
  init?(_ storage: sockaddr_storage) {
    switch Int32(storage.ss_family) {
    case AF_INET:
      let address = withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in.self) }
      guard let host = Self.text(AF_INET, address.sin_addr) else { return nil }
      self.init(host: host, port: UInt16(bigEndian: address.sin_port))
    case AF_INET6:
      let address = withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in6.self) }
      guard let host = Self.text(AF_INET6, address.sin6_addr) else { return nil }
      // An IPv4 client of a dual-stack socket is one client, whichever socket it came through.
      let mapped = "::ffff:"
      let isMapped = host.hasPrefix(mapped) && host.utf8.contains(UInt8(ascii: "."))
      self.init(
        host: isMapped ? String(host.dropFirst(mapped.count)) : host,
        port: UInt16(bigEndian: address.sin6_port))
    default:
      return nil
    }
  }

  private static func text<Address>(_ family: Int32, _ address: Address) -> String? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { buffer in
      withUnsafePointer(to: address) { address in
        inet_ntop(family, address, buffer.baseAddress, socklen_t(buffer.count)).map { String(cString: $0) }
      }
    }
  }

  /// The local end of a socket.
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

extension SocketAddress {
  /// The eight 16-bit groups of an IPv6 address, or nil for IPv4.
  var ipv6Groups: [UInt16]? {
    guard host.utf8.contains(UInt8(ascii: ":")) else { return nil }
    var address = in6_addr()
    // A scope such as `%eth0` is no part of the address.
    let numeric = host.prefix { $0 != "%" }
    guard inet_pton(AF_INET6, String(numeric), &address) == 1 else { return nil }
    return withUnsafeBytes(of: address) { bytes in
      stride(from: 0, to: 16, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
    }
  }
}
