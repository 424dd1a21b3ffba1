import Foundation

/// The periods in which an app is free for every customer; its operator switches them on and off.
///
/// Free access pauses trials and the app's own grace periods.
public struct FreeAccess: Sendable, Hashable {
  /// A period of free access.
  public struct Period: Sendable, Hashable {
    /// When it was switched on.
    public var startsAt: Date
    /// When it was switched off; nil while it is on.
    public var endsAt: Date?

    /// Creates a period.
    public init(startsAt: Date, endsAt: Date?) {
      self.startsAt = startsAt
      self.endsAt = endsAt
    }
  }

  /// The periods in order of time, without overlap.
  public let periods: [Period]

  /// No free access.
  public static let never = FreeAccess([])

  /// Free access from periods in any order. Of two that overlap, the later one begins where the earlier one ends.
  public init(_ periods: [Period]) {
    var ordered: [Period] = []
    for period in periods.sorted(by: { $0.startsAt < $1.startsAt }) {
      guard let last = ordered.last else {
        ordered.append(period)
        continue
      }
      guard let lastEnd = last.endsAt else { break }
      var rest = period
      rest.startsAt = max(period.startsAt, lastEnd)
      if rest.endsAt.map({ $0 > rest.startsAt }) ?? true { ordered.append(rest) }
    }
    self.periods = ordered
  }

  /// Whether free access is on at `instant`.
  public func isOn(at instant: Date) -> Bool {
    periods.contains { $0.startsAt <= instant && instant < ($0.endsAt ?? .distantFuture) }
  }

  /// The next known instant at which it is switched on or off.
  public func nextChange(after instant: Date) -> Date? {
    for period in periods {
      if period.startsAt > instant { return period.startsAt }
      if let end = period.endsAt, end > instant { return end }
    }
    return nil
  }

  /// The time between two instants without free access.
  public func paidTime(from start: Date, until end: Date) -> TimeInterval {
    guard start < end else { return 0 }
    return periods.reduce(end.timeIntervalSince(start)) { paid, period in
      let (first, last) = (max(start, period.startsAt), min(end, period.endsAt ?? end))
      return paid - max(0, last.timeIntervalSince(first))
    }
  }

  /// The same periods, switched off at `instant`.
  public func ending(at instant: Date) -> FreeAccess {
    FreeAccess(
      periods.filter { $0.startsAt < instant }
        .map { Period(startsAt: $0.startsAt, endsAt: min($0.endsAt ?? instant, instant)) })
  }

  /// The end of a period of `duration` from `start` that free access pauses.
  ///
  /// - Returns: nil if free access is on during the period, so that the end is unknown.
  public func end(of duration: TimeInterval, from start: Date) -> Date? {
    var from = start
    var left = duration
    for period in periods {
      if let end = period.endsAt, end <= from { continue }
      let running = max(0, period.startsAt.timeIntervalSince(from))
      if running >= left { break }
      left -= running
      guard let end = period.endsAt else { return nil }
      from = max(from, end)
    }
    return from.addingTimeInterval(left)
  }
}
