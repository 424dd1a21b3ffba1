import Logging
import Sockets

/// What all connections of a server have in common.
struct ServerCore: Sendable {
  let router: Router
  let limits: HTTPLimits
  let waits: ConnectionState.Waits
  let logger: Logger
  let onResponse: (@Sendable (RequestSummary) -> Void)?
}
