import FoundationEssentials
import Synchronization

/// A time that runs at any rate and can be wound forward, as a value: it is told the real time.
///
/// It never goes back, also where the real time does.
struct PacedTime: Sendable {
  private var latest: Date
  private var lastReal: Date
  /// Seconds of this time for each real one.
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

  /// Winds to a time that is found from the present one.
  ///
  /// - Returns: the present one if the other does not lie ahead; nothing has changed then.
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

/// A clock that a test or an operator holds in hand: it can be wound forward, frozen, or run fast.
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

  /// The clock was asked to go back, or to run at a rate that is none.
  public enum Refusal: Error, Hashable, Sendable {
    case goesBack(from: Date)
    case notARate(Double)

    /// A sentence for a person.
    public var message: String {
      switch self {
      case .goesBack(let now): "time never goes back, and it is \(now.formatted(.iso8601))"
      case .notARate(let rate): "\(rate) is not a rate: it must be 0 or more"
      }
    }
  }

  /// - Parameters:
  ///   - start: the time that it shows first; the real time if nil.
  ///   - rate: seconds of this clock for each real one; 0 stands still.
  ///   - real: the time that makes it run.
  public init(
    startingAt start: Date? = nil, rate: Double = 1, real: @escaping @Sendable () -> Date = { Date() }
  ) {
    self.real = real
    let now = real()
    time = Mutex(PacedTime(startingAt: start ?? now, rate: rate, real: now))
  }

  /// The time.
  public var now: Date { time.withLock { $0.now(at: real()) } }

  /// Seconds of this clock for each real one.
  public var rate: Double { time.withLock { $0.rate } }

  /// Winds to a time ahead.
  public func set(to date: Date) throws(Refusal) {
    try wind { _ in date }
  }

  /// Winds forward by so many seconds.
  public func advance(by seconds: TimeInterval) throws(Refusal) {
    try wind { $0.addingTimeInterval(seconds) }
  }

  /// Winds to a time that is found from the present one.
  func wind(to find: (Date) -> Date) throws(Refusal) {
    let now = time.withLock { $0.wind(at: real(), to: find) }
    if let now { throw .goesBack(from: now) }
    announce()
  }

  /// Lets it run at another rate; 0 makes it stand still.
  public func run(at rate: Double) throws(Refusal) {
    guard rate >= 0, rate.isFinite else { throw .notARate(rate) }
    time.withLock { $0.run(at: rate, real: real()) }
    announce()
  }

  /// How many real seconds it takes until `date`; nil while the clock stands still short of it.
  func realSeconds(until date: Date) -> TimeInterval? {
    time.withLock { time in
      let left = date.timeIntervalSince(time.now(at: real()))
      if left <= 0 { return 0 }
      return time.rate == 0 ? nil : left / time.rate
    }
  }

  /// Calls `listener` whenever the clock was wound or its rate changed.
  func onChange(_ listener: @escaping @Sendable () -> Void) {
    listeners.withLock { $0.append(listener) }
  }

  private func announce() {
    for listener in listeners.withLock({ $0 }) { listener() }
  }
}
