/// Receives the events of a pool on any thread. It must not block.
public protocol PostgresPoolObserver: Sendable {
  /// A caller got a connection.
  func acquired(after wait: Duration)
  /// A caller got no connection, or its work failed.
  func failed(_ error: PostgresError)
}

/// The use of a pool at one instant.
public struct PostgresPoolStatus: Sendable, Hashable {
  /// The limit of connections.
  public var maximum: Int
  /// The number of open connections, leased or idle.
  public var open: Int
  /// The number of idle connections.
  public var idle: Int
  /// The number of waiting callers.
  public var waiting: Int
  /// The number of leased connections.
  public var inUse: Int { open - idle }
}
