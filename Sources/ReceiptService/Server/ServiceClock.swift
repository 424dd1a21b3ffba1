import FoundationEssentials
import Postgres
import Sockets

/// Where the service gets the time from: the system's clock, or a test's hand.
public struct ServiceClock: Sendable {
  /// The time now.
  public let now: @Sendable () -> Date

  /// The time that has passed, which no correction of the clock turns back or forward.
  public let uptime: @Sendable () -> MonotonicInstant

  /// A clock that reads these; what it says is the same after it was written to the database and read back.
  public init(
    now: @escaping @Sendable () -> Date,
    uptime: @escaping @Sendable () -> MonotonicInstant = { .now }
  ) {
    self.now = { now().cutToMicroseconds }
    self.uptime = uptime
  }

  /// The system's.
  public static let system = ServiceClock(now: { Date() })
}
