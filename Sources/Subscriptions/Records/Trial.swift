import Foundation

/// A customer's trial: once per device and once per Apple Account.
public struct Trial: Sendable, Hashable {
  /// When it began.
  public var startedAt: Date
  /// The end with extensions and without free access.
  public var endsAt: Date
  /// The environment of the app transaction that started it.
  public var environment: StoreEnvironment

  /// Creates a trial.
  public init(startedAt: Date, endsAt: Date, environment: StoreEnvironment = .production) {
    self.startedAt = startedAt
    self.endsAt = endsAt
    self.environment = environment
  }

  /// The end after the pauses of free access; nil while it is unknown.
  public func end(honoring freeAccess: FreeAccess) -> Date? {
    freeAccess.end(of: endsAt.timeIntervalSince(startedAt), from: startedAt)
  }
}
