import Foundation
import Synchronization

/// A time with a variable rate that can be set forward, as a value that takes the real time.
///
/// It never goes back, not even if the real time does.
struct PacedTime: Sendable {
  private var latest: Date
  private var lastReal: Date
  /// Seconds of this time per real second.
  private(set) var rate: Double

  init(startingAt start: Date, rate: Double, real: Date) {
    latest = start
    lastReal = real
    self.rate = rate
  }

  /// The time when the real time is `real`.
  mutating func now(at real: Date) -> Date {
    let passed = max(0, real.timeIntervalSince(lastReal))
    lastReal = real
    latest = latest.addingTimeInterval(passed * rate)
    return latest
  }

  /// Sets the time to a function of the current one.
  ///
  /// - Returns: the current time if the new one is earlier; the time has not changed then.
  mutating func wind(at real: Date, to find: (Date) -> Date) -> Date? {
    let now = now(at: real)
    let date = find(now)
    guard date >= now else { return now }
    latest = date
    return nil
  }

  mutating func run(at rate: Double, real: Date) {
    _ = now(at: real)
    self.rate = rate
  }
}

/// A clock that a test or an operator can set forward, stop or run fast.
///
/// ```swift
/// let clock = VirtualClock(startingAt: start, rate: 0)  // stands still
/// let store = try SimulatedAppStore(apps: [app], clock: clock)
/// try clock.advance(by: 86_400)
/// await store.deliverDue()
/// ```
public final class VirtualClock: Sendable {
  private let time: Mutex<PacedTime>
  private let real: @Sendable () -> Date
  private let listeners = Mutex<[@Sendable () -> Void]>([])

  /// The reasons why the clock refuses a change.
  public enum Refusal: Error, Hashable, Sendable {
    case goesBack(from: Date)
    case notARate(Double)

    /// The message of the response.
    public var message: String {
      switch self {
      case .goesBack(let now): "time never goes back, and it is \(now.formatted(.iso8601))"
      case .notARate(let rate): "\(rate) is not a rate: it must be 0 or more"
      }
    }
  }

  /// - Parameters:
  ///   - start: the initial time; nil for the real time.
  ///   - rate: seconds of this clock per real second; 0 stops it.
  ///   - real: the real time.
  public init(
    startingAt start: Date? = nil, rate: Double = 1, real: @escaping @Sendable () -> Date = { Date() }
  ) {
    self.real = real
    let now = real()
    time = Mutex(PacedTime(startingAt: start ?? now, rate: rate, real: now))
  }

  /// The time.
  public var now: Date { time.withLock { $0.now(at: real()) } }

  /// Seconds of this clock per real second.
  public var rate: Double { time.withLock { $0.rate } }

  /// Sets the clock to a later time.
  public func set(to date: Date) throws(Refusal) {
    try wind { _ in date }
  }

  /// Advances the clock by a number of seconds.
  public func advance(by seconds: TimeInterval) throws(Refusal) {
    try wind { $0.addingTimeInterval(seconds) }
  }

  /// Sets the clock to a function of the current time.
  func wind(to find: (Date) -> Date) throws(Refusal) {
    let now = time.withLock { $0.wind(at: real(), to: find) }
    if let now { throw .goesBack(from: now) }
    announce()
  }

  /// Sets the rate; 0 stops the clock.
  public func run(at rate: Double) throws(Refusal) {
    guard rate >= 0, rate.isFinite else { throw .notARate(rate) }
    time.withLock { $0.run(at: rate, real: real()) }
    announce()
  }

  /// The real seconds until `date`; nil while the clock is stopped before it.
  func realSeconds(until date: Date) -> TimeInterval? {
    time.withLock { time in
      let left = date.timeIntervalSince(time.now(at: real()))
      if left <= 0 { return 0 }
      return time.rate == 0 ? nil : left / time.rate
    }
  }

  /// Calls `listener` after each change of the clock or its rate.
  func onChange(_ listener: @escaping @Sendable () -> Void) {
    listeners.withLock { $0.append(listener) }
  }

  private func announce() {
    for listener in listeners.withLock({ $0 }) { listener() }
  }
}
