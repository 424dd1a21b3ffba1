import Glibc

/// The service manager that started the process and wants its state (sd_notify(3), systemd's protocol).
///
/// The protocol is a line in a datagram to the socket that `NOTIFY_SOCKET` names. Nothing comes back. The server runs on
/// when the service manager is away.
struct ServiceManager: Sendable {
  /// A state of the process, as the protocol writes it.
  enum State: String, Sendable {
    /// Both ports are open; also after a reload.
    case ready = "READY=1"
    /// The configuration is being read again.
    case reloading = "RELOADING=1"
    /// The event loops still take turns.
    case alive = "WATCHDOG=1"
    /// The process accepts no more connections and ends when the running requests have ended.
    case stopping = "STOPPING=1"
  }

  /// The socket's name as the system takes it: an abstract one begins with a zero byte.
  private let name: [UInt8]

  /// - Parameter socket: the value of `NOTIFY_SOCKET`: a path, or `@` and an abstract name (unix(7)); anything else
  ///   means that no service manager listens.
  init(socket: String?) {
    var name = Array((socket ?? "").utf8)
    if name.first == UInt8(ascii: "@") { name[0] = 0 }
    let room = MemoryLayout.size(ofValue: sockaddr_un().sun_path)
    let isName = name.count > 1 && name.count < room && (name[0] == 0 || name[0] == UInt8(ascii: "/"))
    self.name = isName ? name : []
  }

  /// Sends a state to the service manager without waiting.
  /// - Returns: whether the service manager's socket took it.
  @discardableResult
  func tell(_ state: State) -> Bool {
    guard !name.isEmpty else { return false }
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
    // An abstract name has the length that is given here, so the zero bytes behind it must not count.
    let length = socklen_t(MemoryLayout<sockaddr_un>.offset(of: \.sun_path).map { $0 + name.count } ?? 0)
    let text = Array(state.rawValue.utf8)
    let sent = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
        sendto(
          descriptor, text, text.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL), generic, length)
      }
    }
    return sent == text.count
  }
}
