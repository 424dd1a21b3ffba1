import Foundation
import HTTP

/// The service manager's watchdog (sd_watchdog_enabled(3), `WatchdogSec=`), which restarts a process without a keep-alive
/// message.
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

  /// Sends keep-alive messages until its task is cancelled, each after all event loops of the servers have run. This task
  /// itself needs a thread of the task pool, so a blocked pool also stops the messages.
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
