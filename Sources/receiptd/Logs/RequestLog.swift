import HTTP
import Logging

/// A line for each answer that somebody may want to look into: what was asked by its route, never by its path, and how
/// it ended.
///
/// At `debug` that is every answer. A line costs as much as a small request, and what went well is counted in
/// metrics, so by default there is one for our own faults, for what was refused, and for what took long.
///
/// An address is personal data. It is there where somebody may have to be held off by it, which is where something was
/// refused, and in no other line.
struct RequestLog: Sendable {
  let logger: Logger

  /// Beyond this a client has begun to wonder.
  private static let long = Duration.seconds(1)

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
    logger.log(level: level, "answered", metadata: metadata)
  }

  static func level(_ summary: RequestSummary) -> Logger.Level {
    switch summary.status {
    case 500...: .error
    // Whoever sends these by the thousand must not fill the disk.
    case 429, 431: .debug
    case 400... where summary.routeIndex == nil: .debug
    case 400...: .info
    default: summary.duration > long ? .info : .debug
    }
  }
}
