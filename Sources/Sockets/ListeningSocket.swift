import Foundation
import Platform

/// Opens listening sockets.
enum ListeningSocket {
  /// Resolves the host, binds and listens.
  ///
  /// - Returns: the descriptor, non-blocking and closed in child processes.
  static func open(host: String, port: UInt16, backlog: Int32) throws(SocketError) -> Int32 {
    let resolved = try resolve(host: host, port: port)
    defer { freeaddrinfo(resolved) }
    let info = resolved.pointee
    let descriptor = socket(info.ai_family, info.ai_socktype, info.ai_protocol)
    guard descriptor >= 0 else { throw .last("socket") }
    Platform.prepare(descriptor)
    do throws(SocketError) {
      // A restarted server can bind while connections of its predecessor are in TIME_WAIT.
      try set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
      // Accepted sockets inherit the option, which saves a system call for each.
      try set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
      if info.ai_family == AF_INET6 { try set(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, 0) }
      guard bind(descriptor, info.ai_addr, info.ai_addrlen) == 0 else {
        throw SocketError.last("bind \(SocketAddress(host: host, port: port))")
      }
      guard listen(descriptor, backlog) == 0 else { throw SocketError.last("listen") }
    } catch {
      Platform.close(descriptor)
      throw error
    }
    return descriptor
  }

  private static func resolve(
    host: String, port: UInt16
  ) throws(SocketError) -> UnsafeMutablePointer<addrinfo> {
    var hints = addrinfo()
    hints.ai_family = AF_UNSPEC
    hints.ai_socktype = Platform.streamSocket
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
