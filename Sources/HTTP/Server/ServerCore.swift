import Logging
import Sockets

/// The constants that all connections of a server share.
struct ServerCore: Sendable {
  let limits: HTTPLimits
  /// An event loop's part of ``HTTPLimits/bufferedBytes``.
  let bufferedBytes: Int
  let timeouts: ConnectionState.Timeouts
  let trustedProxies: TrustedProxies
  let logger: Logger
  let onResponse: (@Sendable (RequestSummary) -> Void)?
}
