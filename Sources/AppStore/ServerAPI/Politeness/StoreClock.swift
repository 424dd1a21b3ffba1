import FoundationEssentials

/// What the client goes by in time and chance, so that a test can drive both by hand.
public struct StoreClock: Sendable {
  /// The calendar: when a token is issued, and what `Retry-After` is compared with.
  public var date: @Sendable () -> Date
  /// The calendar by which a remembered answer grows old: that of those who ask. It differs from ``date`` only where
  /// their time is wound forward and the store's tokens are not.
  public var answerDate: @Sendable () -> Date
  /// The time that only runs forward, for every wait.
  public var instant: @Sendable () -> ContinuousClock.Instant
  /// Waits until an instant without holding a thread; throws if the task is cancelled.
  public var sleep: @Sendable (ContinuousClock.Instant) async throws -> Void
  /// Chance, evenly spread from 0 to 1.
  public var jitter: @Sendable () -> Double

  /// The system's.
  public static let system = Self(
    date: { Date() }, answerDate: { Date() }, instant: { .now },
    sleep: { try await Task.sleep(until: $0, clock: .continuous) }, jitter: { .random(in: 0...1) })
}
