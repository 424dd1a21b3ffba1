import FoundationEssentials
import Logging
import Postgres
import Synchronization

/// Corrects the server's clock by the database's, where they differ by more than a clock may be off.
///
/// The database's clock is the one that all servers and the support views share. Without a correction a server
/// whose clock is ahead ends access early, in rows as in answers, and another server puts it right, by turns.
final class ClockCorrection: Sendable {
  private let server: ServiceClock
  private let correction: CorrectionValue

  /// A reference that the clock's closure can hold.
  private final class CorrectionValue: Sendable {
    let seconds = Mutex<TimeInterval>(0)
  }

  /// - Parameter clock: the server's.
  init(of clock: ServiceClock) {
    server = clock
    correction = CorrectionValue()
  }

  /// The server's clock with the correction of the moment: none until ``measure(_:_:)`` has found a difference.
  var clock: ServiceClock {
    let (server, correction) = (server, correction)
    return ServiceClock(
      now: { server.now() + correction.seconds.withLock { $0 } }, uptime: server.uptime)
  }

  /// Compares the clocks. Where the database is away, the correction stays as it is.
  func measure(_ pool: PostgresPool, _ logger: Logger) async {
    do {
      let before = server.now()
      let theirs = try await pool.query("SELECT clock_timestamp()")[0].decode(0, as: Date.self)
      let uncertainty = server.now().timeIntervalSince(before) / 2
      let difference = theirs.timeIntervalSince(before) - uncertainty
      set(abs(difference) > Doctor.clockTolerance + uncertainty ? difference : 0, logger)
    } catch {
      logger.debug("the clocks could not be compared", metadata: ["reason": "\(error)"])
    }
  }

  private func set(_ seconds: TimeInterval, _ logger: Logger) {
    let former = correction.seconds.withLock { former in
      defer { former = seconds }
      return former
    }
    // A difference that stays is said once, not at each measurement.
    guard abs(seconds - former) > Doctor.clockTolerance else { return }
    if seconds == 0 {
      logger.notice("the server's clock agrees with the database's again")
    } else {
      logger.warning(
        "the server's clock differs from the database's, which is used in its place; let NTP set both",
        metadata: ["seconds-ahead": "\((-seconds * 10).rounded() / 10)"])
    }
  }
}
