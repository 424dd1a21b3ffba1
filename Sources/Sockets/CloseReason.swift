/// Why a connection was closed.
public enum CloseReason: Sendable, Hashable {
  /// The handler had no more work for it.
  case finished
  /// A deadline of the handler passed.
  case deadline
  /// A system call failed with this `errno`: the other end reset the connection, or the network failed.
  case failed(Int32)
  /// The server reached its memory limit, and the other end does not read its bytes.
  case overloaded
  /// The server is stopping.
  case shutdown
}
