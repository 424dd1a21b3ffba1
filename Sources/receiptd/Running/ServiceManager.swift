import Foundation
import HTTP
import Platform

/// Sends the state of the process to the service manager (sd_notify(3), systemd's protocol).
///
/// A message is one line in a datagram to the socket of `NOTIFY_SOCKET`. There is no response. The server works without
/// a service manager too.
struct ServiceManager: Sendable {
  /// A state of the process in the words of the protocol.
  enum State: String, Sendable {
    /// Both ports are open; also after a reload.
    case ready = "READY=1"
    /// A reload is under way.
    case reloading = "RELOADING=1"
    /// The event loops run.
    case alive = "WATCHDOG=1"
    /// The process accepts no more connections and ends when the running requests have ended.
    case stopping = "STOPPING=1"
  }

  /// The name of the socket in the system's form: an abstract name begins with a zero byte.
  private let name: [UInt8]

  /// - Parameter socket: the value of `NOTIFY_SOCKET`: a path, or `@` and an abstract name (unix(7)); anything else
  ///   means that no service manager listens.
  init(socket: String?) {
    var name = Array((socket ?? "").utf8)
    if name.first == UInt8(ascii: "@") { name[0] = 0 }
    let capacity = MemoryLayout.size(ofValue: sockaddr_un().sun_path)
    let isName = name.count > 1 && name.count < capacity && (name[0] == 0 || name[0] == UInt8(ascii: "/"))
    self.name = isName ? name : []
  }

  /// Sends a state to the service manager without waiting.
  /// - Returns: whether the service manager's socket took it.
  @discardableResult
  func send(_ state: State) -> Bool {
    guard !name.isEmpty else { return false }
    let descriptor = socket(AF_UNIX, Platform.datagramSocket, 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    Platform.prepare(descriptor)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
    // The length of an abstract name follows from this length, so the zero bytes after it must not count.
    let length = socklen_t(MemoryLayout<sockaddr_un>.offset(of: \.sun_path).map { $0 + name.count } ?? 0)
    let text = Array(state.rawValue.utf8)
    let sent = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
        sendto(descriptor, text, text.count, 0, generic, length)
      }
    }
    return sent == text.count
  }
}

/// The service manager's watchdog (sd_watchdog_enabled(3), `WatchdogSec=`), which restarts a process without a
/// keep-alive message.
struct Watchdog: Sendable {
  /// The timeout of the watchdog.
  let timeout: Duration

  /// - Parameter environment: has `WATCHDOG_USEC` in microseconds, and may have `WATCHDOG_PID`.
  /// - Returns: `nil` if no watchdog waits for this process.
  init?(_ environment: [String: String]) {
    guard let timeout = environment["WATCHDOG_USEC"].flatMap(Self.number), timeout > 0 else { return nil }
    if let process = environment["WATCHDOG_PID"], Self.number(process) != Int64(getpid()) { return nil }
    self.timeout = .microseconds(timeout)
  }

  /// Sends keep-alive messages until its task is cancelled, each after all event loops of the servers have run. This
  /// task itself needs a thread of the task pool, so a blocked pool also stops the messages.
  func keepAlive(_ manager: ServiceManager, _ servers: HTTPServer...) async {
    while !Task.isCancelled {
      for server in servers { await server.waitUntilResponsive() }
      manager.send(.alive)
      // A third of the timeout, so that one late message does no harm.
      try? await Task.sleep(for: timeout / 3)
    }
  }

  /// Parses a number of one to fifteen digits.
  private static func number(_ text: String) -> Int64? {
    guard (1...15).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else {
      return nil
    }
    return Int64(text)
  }
}
