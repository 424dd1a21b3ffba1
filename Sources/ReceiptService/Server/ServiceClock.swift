import Foundation
import Platform
import Postgres

/// The clock of the service: the system's, or one that a test sets.
public struct ServiceClock: Sendable {
  /// The time now.
  public let now: @Sendable () -> Date

  /// The monotonic time, which corrections of the clock do not change.
  public let uptime: @Sendable () -> MonotonicInstant

  /// Creates a clock from these functions. It cuts times to microseconds, as PostgreSQL stores them.
  public init(
    now: @escaping @Sendable () -> Date,
    uptime: @escaping @Sendable () -> MonotonicInstant = { .now }
  ) {
    self.now = { now().cutToMicroseconds }
    self.uptime = uptime
  }

  /// The system's clock.
  public static let system = ServiceClock(now: { Date() })
}
