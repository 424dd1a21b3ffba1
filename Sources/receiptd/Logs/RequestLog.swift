import HTTP
import Logging

/// Logs responses: the route, never the path, with the status and the duration.
///
/// At level `debug` it logs every response. A line costs as much as a small request, and metrics count all requests, so
/// the default is one line for each server error, refusal and slow response.
///
/// A client's address is personal data. Only a refusal has it, because an operator may need it to block the client.
struct RequestLog: Sendable {
  let logger: Logger

  /// The duration from which a response counts as slow.
  private static let slow = Duration.seconds(1)

  @Sendable
  func record(_ summary: RequestSummary) {
    let level = Self.level(summary)
    guard level >= logger.logLevel else { return }
    var metadata: Logger.Metadata = [
      "request": "\(summary.requestID)", "trace": "\(summary.trace.traceID)",
      "method": "\(summary.method)", "route": "\(summary.route)",
      "status": .stringConvertible(summary.status),
      // In seconds, to the microsecond.
      "duration": .stringConvertible(Double(summary.nanoseconds / 1_000) / 1e6),
    ]
    if (400..<500).contains(summary.status) { metadata["client"] = "\(summary.clientAddress)" }
    if let problem = summary.problem {
      metadata["code"] = "\(problem.code.rawValue)"
      metadata["reason"] = "\(problem.loggedDetail ?? problem.detail)"
      for (name, value) in problem.logFields { metadata[name] = "\(value)" }
    }
    logger.log(level: level, "answered", metadata: metadata)
  }

  static func level(_ summary: RequestSummary) -> Logger.Level {
    switch summary.status {
    // A client that sends thousands of these must not fill the disk. No rate limit counts a request that reaches no
    // handler; 501 and 505 are faults of its head.
    case 429, 501, 505: .debug
    // Not a failure but a state that a handler reports: `/readyz` while the server stops.
    case 500... where summary.problem == nil: .info
    case 500...: .error
    case 400... where !summary.reachedHandler: .debug
    case 400...: .info
    default: summary.duration > slow ? .info : .debug
    }
  }
}
