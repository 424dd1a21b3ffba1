import HTTP
import Logging

/// A line for each answer: what was asked by its route, never by its path, and how it ended.
struct RequestLog: Sendable {
  let logger: Logger

  @Sendable
  func record(_ summary: RequestSummary) {
    // Every answer at `debug`; by default only those that are our own fault.
    logger.log(
      level: summary.status >= 500 ? .error : .debug, "answered",
      metadata: [
        "request": "\(summary.requestID)", "method": "\(summary.method)", "route": "\(summary.route)",
        "status": "\(summary.status)", "duration": "\(summary.duration)",
      ])
  }
}
