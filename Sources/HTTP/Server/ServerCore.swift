import Logging
import Sockets

/// What all connections of a server have in common.
struct ServerCore: Sendable {
  let router: Router
  let limits: HTTPLimits
  let deadlines: HTTPDeadlines
  let logger: Logger
  let onResponse: (@Sendable (RequestSummary) -> Void)?
}
