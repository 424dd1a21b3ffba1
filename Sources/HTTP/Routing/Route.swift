public import HTTPTypes

/// One entry of a ``Router``: what is answered to a method at a pattern.
public struct Route: Sendable {
  /// Its place in ``Router/routes``: what is kept for each route is found by it without a search.
  public let index: Int
  /// The method.
  public let method: HTTPRequest.Method
  /// The pattern, such as `/api/v1/profiles/{userID}/premium`: a bounded label for logs and metrics.
  public let pattern: String
  /// The longest body that is read; a longer one is answered 413 before the handler hears of it.
  public let maximumBodyLength: Int
  let handler: Handler

  /// How a route answers.
  enum Handler: Sendable {
    /// On the event loop, at once.
    case immediate(@Sendable (Request) throws -> Response)
    /// In a task of its own, which is cancelled when the client is gone or the deadline has passed.
    case asynchronous(@Sendable (Request) async throws -> Response)
  }
}
