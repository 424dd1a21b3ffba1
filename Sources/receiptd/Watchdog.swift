import Glibc
import HTTP

/// The service manager's patience with a process that says nothing (sd_watchdog_enabled(3), `WatchdogSec=`): after that it
/// kills the process and starts another one.
struct Watchdog: Sendable {
  /// How long it waits for a word.
  let patience: Duration

  /// - Parameter environment: with `WATCHDOG_USEC` in microseconds, and `WATCHDOG_PID` where it is about one process.
  /// - Returns: nil if nobody waits for this process.
  init?(_ environment: [String: String]) {
    guard let patience = environment["WATCHDOG_USEC"].flatMap(Self.number), patience > 0 else { return nil }
    if let process = environment["WATCHDOG_PID"], Self.number(process) != Int64(getpid()) { return nil }
    self.patience = .microseconds(patience)
  }

  /// Says in time, again and again, that the process is alive: when all event loops of the servers have had a turn, and
  /// with them the threads that run tasks, of which this is one. Ends when its task is cancelled.
  func calm(_ manager: ServiceManager, _ servers: HTTPServer...) async {
    while !Task.isCancelled {
      for server in servers { await server.awaitTurns() }
      manager.tell(.alive)
      // A word that comes late shall not be the last.
      try? await Task.sleep(for: patience / 3)
    }
  }

  /// Digits and nothing else.
  private static func number(_ text: String) -> Int64? {
    guard (1...15).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else {
      return nil
    }
    return Int64(text)
  }
}
