import Foundation
import Synchronization

/// A clock that a test or an operator can set forward: another clock plus an offset.
///
/// ```swift
/// let clock = VirtualClock { start }  // stands still
/// let store = try SimulatedAppStore(apps: [app], clock: clock)
/// try clock.advance(by: 86_400)
/// await store.deliverDue()
/// ```
public final class VirtualClock: Sendable {
  private let real: @Sendable () -> Date
  private let offset: Mutex<TimeInterval>

  /// The clock refuses to go back.
  public struct GoesBack: Error, Hashable, Sendable {
    /// The current time.
    public let now: Date
  }

  /// - Parameters:
  ///   - start: the initial time; nil for that of the other clock.
  ///   - real: the other clock.
  public init(startingAt start: Date? = nil, real: @escaping @Sendable () -> Date = { Date() }) {
    self.real = real
    offset = Mutex(start?.timeIntervalSince(real()) ?? 0)
  }

  /// The time.
  public var now: Date { real() + offset.withLock { $0 } }

  /// Advances the clock by a number of seconds.
  public func advance(by seconds: TimeInterval) throws(GoesBack) {
    guard seconds >= 0 else { throw GoesBack(now: now) }
    offset.withLock { $0 += seconds }
  }

  /// Sets the clock to a later time.
  public func set(to date: Date) throws(GoesBack) {
    try advance(by: date.timeIntervalSince(now))
  }
}
