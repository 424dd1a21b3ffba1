import FoundationEssentials

/// The times when an app asks nobody for a subscription: switched on and off by its operator.
///
/// Free time is a present, and takes nothing away: a trial or a grace that ran meanwhile stands still.
public struct FreeTime: Sendable, Hashable {
  /// One time between on and off.
  public struct Spell: Sendable, Hashable {
    /// When it was switched on.
    public var startsAt: Date
    /// When it was switched off; `nil` while it is on.
    public var endsAt: Date?

    /// Creates a spell.
    public init(startsAt: Date, endsAt: Date?) {
      self.startsAt = startsAt
      self.endsAt = endsAt
    }
  }

  /// In order of time, without overlap.
  public let spells: [Spell]

  /// Always paid.
  public static let never = FreeTime([])

  /// Takes spells in any order; of two that overlap, the later one begins where the earlier one ends.
  public init(_ spells: [Spell]) {
    var ordered: [Spell] = []
    for spell in spells.sorted(by: { $0.startsAt < $1.startsAt }) {
      guard let last = ordered.last else {
        ordered.append(spell)
        continue
      }
      guard let lastEnd = last.endsAt else { break }
      var rest = spell
      rest.startsAt = max(spell.startsAt, lastEnd)
      if rest.endsAt.map({ $0 > rest.startsAt }) ?? true { ordered.append(rest) }
    }
    self.spells = ordered
  }

  /// Whether the app asks nobody at `instant`.
  public func isOn(at instant: Date) -> Bool {
    spells.contains { $0.startsAt <= instant && instant < ($0.endsAt ?? .distantFuture) }
  }

  /// The next instant at which it is switched on or off, as far as is known.
  public func nextChange(after instant: Date) -> Date? {
    for spell in spells {
      if spell.startsAt > instant { return spell.startsAt }
      if let end = spell.endsAt, end > instant { return end }
    }
    return nil
  }

  /// How much of the time between two instants was not free.
  public func paidTime(from start: Date, until end: Date) -> TimeInterval {
    guard start < end else { return 0 }
    return spells.reduce(end.timeIntervalSince(start)) { paid, spell in
      let (first, last) = (max(start, spell.startsAt), min(end, spell.endsAt ?? end))
      return paid - max(0, last.timeIntervalSince(first))
    }
  }

  /// The same, if it is off from `instant` on.
  public func ending(at instant: Date) -> FreeTime {
    FreeTime(
      spells.filter { $0.startsAt < instant }
        .map { Spell(startsAt: $0.startsAt, endsAt: min($0.endsAt ?? instant, instant)) })
  }

  /// When a time of `duration` from `start` is over, where free time does not count.
  /// - Returns: `nil` while free time is on in the middle of it: then nobody knows yet.
  public func end(of duration: TimeInterval, from start: Date) -> Date? {
    var from = start
    var left = duration
    for spell in spells {
      if let end = spell.endsAt, end <= from { continue }
      let running = max(0, spell.startsAt.timeIntervalSince(from))
      if running >= left { break }
      left -= running
      guard let end = spell.endsAt else { return nil }
      from = max(from, end)
    }
    return from.addingTimeInterval(left)
  }
}
