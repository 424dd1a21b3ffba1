/// How long anything may take. Each runs from a fixed instant, so that a slow drip does not extend it.
public struct HTTPDeadlines: Sendable, Hashable {
  /// From the first byte of a request to the end of its header section: 408 beyond.
  public var head = Duration.seconds(10)
  /// From the end of the header section to the end of the body: 408 beyond.
  public var body = Duration.seconds(30)
  /// From the end of the request to the answer: 503 `overloaded` beyond, and the handler's task is
  /// cancelled.
  public var handler = Duration.seconds(30)
  /// From the moment an answer does not fit into the socket's buffer until it is all written: the
  /// connection is closed beyond.
  public var write = Duration.seconds(30)
  /// From the end of an answer, or of connecting, to the first byte of a request: the connection is closed.
  public var idle = Duration.seconds(60)
  /// After the last answer, how long the client may take to read it and close its side.
  public var linger = Duration.seconds(2)

  /// The defaults.
  public init() {}
}
