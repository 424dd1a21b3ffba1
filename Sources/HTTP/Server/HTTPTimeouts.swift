/// The timeouts of a connection, which `ConnectionState.deadlinePassed` enforces.
///
/// Each runs from a fixed instant, so that a client that sends slowly does not extend it.
public struct HTTPTimeouts: Sendable, Hashable {
  /// From the first byte of a request to the end of its header section. Then 408.
  public var head = Duration.seconds(10)
  /// From the end of the header section to the end of the body. Then 408.
  public var body = Duration.seconds(30)
  /// From the end of the request to the response. Then 503 `overloaded`, and the handler's task is cancelled.
  public var handler = Duration.seconds(30)
  /// From the instant when the socket's buffer is full until all of the response is sent. Then the connection is closed.
  public var write = Duration.seconds(30)
  /// From the end of a response, or from the accept, to the first byte of a request. Then the connection is closed.
  public var idle = Duration.seconds(60)
  /// From the last response until the client closes its side. Then the connection is closed.
  public var linger = Duration.seconds(2)

  /// The defaults.
  public init() {}
}
