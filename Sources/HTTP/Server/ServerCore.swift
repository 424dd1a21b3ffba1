import Logging
import Sockets

/// What all connections of a server have in common.
struct ServerCore: Sendable {
  let limits: HTTPLimits
  /// An event loop's part of ``HTTPLimits/heldBytes``.
  let heldBytes: Int
  let waits: ConnectionState.Waits
  let trustedProxies: TrustedProxies
  let logger: Logger
  let onResponse: (@Sendable (RequestSummary) -> Void)?
}
