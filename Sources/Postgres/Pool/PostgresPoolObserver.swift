/// Is told how a pool fares, on whichever thread it happens: it must not wait.
public protocol PostgresPoolObserver: Sendable {
  /// Somebody got a connection.
  func acquired(after wait: Duration)
  /// Somebody got none, or what was done with it failed.
  func failed(_ error: PostgresError)
}

/// How a pool fares at one moment.
public struct PostgresPoolStatus: Sendable, Hashable {
  /// The most connections that it may have.
  public var maximum: Int
  /// How many are open, lent or idle.
  public var open: Int
  /// How many are open and not lent.
  public var idle: Int
  /// How many wait for one.
  public var waiting: Int
  /// How many are lent.
  public var inUse: Int { open - idle }
}
