import Foundation
import Logging
import Platform
import Postgres
import Synchronization

/// The clock of the service: the system's, or one that a test sets.
package struct ServiceClock: Sendable {
  /// The time now.
  package let now: @Sendable () -> Date

  /// The monotonic time, which corrections of the clock do not change.
  package let uptime: @Sendable () -> MonotonicInstant

  /// Creates a clock from these functions. It cuts times to microseconds, as PostgreSQL stores them.
  package init(
    now: @escaping @Sendable () -> Date,
    uptime: @escaping @Sendable () -> MonotonicInstant = { .now }
  ) {
    self.now = { now().cutToMicroseconds }
    self.uptime = uptime
  }

  /// The most by which the clocks of two servers may differ, in seconds.
  ///
  /// A time that lies farther in the future was written by a wrong clock and is ignored. Otherwise no work would be
  /// done until that time.
  package static let serverTolerance: TimeInterval = 300

  /// The system's clock.
  package static let system = ServiceClock(now: { Date() })
}

/// Corrects the server's clock by the database's, if they differ by more than the tolerance.
///
/// All servers and the support views share the database's clock. Without a correction, a server whose clock is ahead
/// ends access early in rows and responses, and other servers restore it, again and again.
package final class ClockCorrection: Sendable {
  /// The most by which two clocks may differ, in seconds.
  package static let tolerance: TimeInterval = 2

  private let server: ServiceClock
  private let correction: CorrectionValue

  /// The correction in seconds, which the closure of the clock captures.
  private final class CorrectionValue: Sendable {
    let seconds = Mutex<TimeInterval>(0)
  }

  /// - Parameter clock: the server's clock.
  package init(of clock: ServiceClock) {
    server = clock
    correction = CorrectionValue()
  }

  /// The server's clock with the current correction, which is 0 until ``measure(_:_:)`` finds a difference.
  package var clock: ServiceClock {
    let (server, correction) = (server, correction)
    return ServiceClock(
      now: { server.now() + correction.seconds.withLock { $0 } }, uptime: server.uptime)
  }

  /// Compares the clocks. While the database is unavailable, the correction stays.
  package func measure(_ pool: PostgresPool, _ logger: Logger) async {
    do {
      let before = server.now()
      let theirs = try await pool.query("SELECT clock_timestamp() AS time")[0].decode("time", as: Date.self)
      let uncertainty = server.now().timeIntervalSince(before) / 2
      let difference = theirs.timeIntervalSince(before) - uncertainty
      set(abs(difference) > Self.tolerance + uncertainty ? difference : 0, logger)
    } catch {
      logger.debug("the clocks could not be compared", metadata: ["reason": "\(error)"])
    }
  }

  private func set(_ seconds: TimeInterval, _ logger: Logger) {
    let former = correction.seconds.withLock { former in
      defer { former = seconds }
      return former
    }
    // A lasting difference is logged once.
    guard abs(seconds - former) > Self.tolerance else { return }
    if seconds == 0 {
      logger.notice("the server's clock agrees with the database's again")
    } else {
      logger.warning(
        "the server's clock differs from the database's clock, which receiptd uses instead; set both by NTP",
        metadata: ["seconds-ahead": "\((-seconds * 10).rounded() / 10)"])
    }
  }
}
