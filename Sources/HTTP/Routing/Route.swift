public import HTTPTypes

/// A route of a ``Router``: a method, a path pattern and a handler.
public struct Route: Sendable {
  /// The index in ``Router/routes``, for tables with one entry per route.
  public let index: Int
  /// The method.
  public let method: HTTPRequest.Method
  /// The pattern, such as `/api/v1/profiles/{userID}/premium`: a bounded label for logs and metrics.
  public let pattern: String
  /// The longest body; a longer one gets 413, and the handler does not run.
  public let maximumBodyLength: Int
  let handler: Handler

  /// The handler of a route.
  enum Handler: Sendable {
    /// Runs on the event loop without a task.
    case immediate(@Sendable (Request) throws -> Response)
    /// Runs in a task, which is cancelled when the connection is lost or the deadline has passed.
    case asynchronous(@Sendable (Request) async throws -> Response)
  }
}
