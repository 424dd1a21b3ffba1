import Glibc

/// The service manager that started the process and wants to hear how it stands (sd_notify(3), systemd's protocol).
///
/// The protocol is a line in a datagram to the socket that `NOTIFY_SOCKET` names. Nothing comes back, and where nobody
/// listens nothing is lost: a manager that is away is no reason to serve nobody.
struct ServiceManager: Sendable {
  /// What it may be told.
  enum State: String, Sendable {
    /// Both ports are open; also after a reload.
    case ready = "READY=1"
    /// The configuration is being read again.
    case reloading = "RELOADING=1"
    /// It does not stand still.
    case alive = "WATCHDOG=1"
    /// It accepts no more, and ends when what is under way has ended.
    case stopping = "STOPPING=1"
  }

  /// The socket's name as the system takes it: an abstract one begins with a zero byte.
  private let name: [UInt8]

  /// - Parameter socket: the value of `NOTIFY_SOCKET`: a path, or `@` and an abstract name (unix(7)); anything else
  ///   means that nobody wants to hear.
  init(socket: String?) {
    var name = Array((socket ?? "").utf8)
    if name.first == UInt8(ascii: "@") { name[0] = 0 }
    let room = MemoryLayout.size(ofValue: sockaddr_un().sun_path)
    let isName = name.count > 1 && name.count < room && (name[0] == 0 || name[0] == UInt8(ascii: "/"))
    self.name = isName ? name : []
  }

  /// Tells it. Never waits.
  func tell(_ state: State) {
    guard !name.isEmpty else { return }
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
    // An abstract name is as long as it is said to be, so the zeros behind it must not count.
    let length = socklen_t(MemoryLayout<sockaddr_un>.offset(of: \.sun_path).map { $0 + name.count } ?? 0)
    let text = Array(state.rawValue.utf8)
    _ = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
        sendto(
          descriptor, text, text.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL), generic, length)
      }
    }
  }
}
