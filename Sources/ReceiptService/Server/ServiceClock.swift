import FoundationEssentials

/// Where the service gets the time from: the system's clock, or a test's hand.
public struct ServiceClock: Sendable {
  /// The time now.
  public let now: @Sendable () -> Date

  /// A clock that reads this.
  public init(now: @escaping @Sendable () -> Date) { self.now = now }

  /// The system's.
  public static let system = ServiceClock { Date() }
}
