/// Why a connection is no more. Each connection ends with exactly one.
public enum CloseReason: Sendable, Hashable {
  /// The handler was done with it.
  case finished
  /// The handler gave up waiting.
  case deadline
  /// The other end closed or reset it, or the network failed: the value is `errno`.
  case failed(Int32)
  /// The server has no memory left for what the other end does not fetch.
  case overloaded
  /// The server is stopping.
  case shutdown
}
