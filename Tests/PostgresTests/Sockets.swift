import Foundation

/// How many sockets this process has open to a port of 127.0.0.1.
func openSockets(to port: UInt16) -> Int {
  let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
  return descriptors.compactMap { Int32($0) }.count { descriptor in
    var address = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let status = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
    }
    return status == 0 && address.sin_family == sa_family_t(AF_INET) && address.sin_port == port.bigEndian
  }
}
