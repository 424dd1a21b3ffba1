import FoundationEssentials

/// The app's own free time of one customer: once per device and once per Apple Account.
public struct Trial: Sendable, Hashable {
  /// When it began.
  public var startedAt: Date
  /// When it ends, extensions included, as long as the app asks for a subscription meanwhile.
  public var endsAt: Date
  /// The environment of the app transaction that started it.
  public var environment: StoreEnvironment

  /// Creates a trial.
  public init(startedAt: Date, endsAt: Date, environment: StoreEnvironment = .production) {
    self.startedAt = startedAt
    self.endsAt = endsAt
    self.environment = environment
  }

  /// When it ends where free time does not count against it; `nil` while that cannot be known.
  public func end(honoring freeTime: FreeTime) -> Date? {
    freeTime.end(of: endsAt.timeIntervalSince(startedAt), from: startedAt)
  }
}
