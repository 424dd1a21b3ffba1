import Foundation

/// The time and randomness of the client as parameters, so that a test can set both by hand.
public struct StoreClock: Sendable {
  /// The calendar time, for the issue time of tokens and for `Retry-After`.
  public var date: @Sendable () -> Date
  /// The calendar time for the age of cached responses. It differs from ``date`` only where the service's clock is
  /// set forward while the store's tokens use real time.
  public var cacheDate: @Sendable () -> Date
  /// The monotonic time, for every wait.
  public var instant: @Sendable () -> ContinuousClock.Instant
  /// Waits until an instant without holding a thread; throws if the task is cancelled.
  public var sleep: @Sendable (ContinuousClock.Instant) async throws -> Void
  /// A random number, evenly distributed from 0 to 1.
  public var jitter: @Sendable () -> Double

  /// The system's clocks and random numbers.
  public static let system = Self(
    date: { Date() }, cacheDate: { Date() }, instant: { .now },
    sleep: { try await Task.sleep(until: $0, clock: .continuous) }, jitter: { .random(in: 0...1) })
}
