import Glibc

/// Makes listening sockets.
enum ListeningSocket {
  /// Resolves, binds and listens; non-blocking and not inheritable.
  static func open(host: String, port: UInt16, backlog: Int32) throws(SocketError) -> Int32 {
    let resolved = try resolve(host: host, port: port)
    defer { freeaddrinfo(resolved) }
    let info = resolved.pointee
    let type = info.ai_socktype | Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(info.ai_family, type, info.ai_protocol)
    guard descriptor >= 0 else { throw .last("socket") }
    do throws(SocketError) {
      // A restarted server must not wait for its predecessor's connections to time out.
      try set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
      // Accepted sockets inherit it on Linux, which saves a system call for each.
      try set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
      if info.ai_family == AF_INET6 { try set(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, 0) }
      guard bind(descriptor, info.ai_addr, info.ai_addrlen) == 0 else {
        throw SocketError.last("bind \(SocketAddress(host: host, port: port))")
      }
      guard listen(descriptor, backlog) == 0 else { throw SocketError.last("listen") }
    } catch {
      close(descriptor)
      throw error
    }
    return descriptor
  }

  private static func resolve(
    host: String, port: UInt16
  ) throws(SocketError) -> UnsafeMutablePointer<addrinfo> {
    var hints = addrinfo()
    hints.ai_family = AF_UNSPEC
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
    var resolved: UnsafeMutablePointer<addrinfo>?
    let status = getaddrinfo(host, String(port), &hints, &resolved)
    guard status == 0, let resolved else { throw SocketError(operation: "resolve \(host)", code: status) }
    return resolved
  }

  private static func set(
    _ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32
  ) throws(SocketError) {
    var value = value
    guard setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
      throw .last("setsockopt")
    }
  }
}
