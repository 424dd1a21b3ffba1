import HTTP
import Logging
import Synchronization

/// A log handler that collects all lines with their metadata and trace id.
final class LogLines: LogHandler {
  private let lines = Mutex<[String]>([])

  var all: [String] { lines.withLock { $0 } }
  var logLevel: Logger.Level {
    get { .trace }
    set { _ = newValue }
  }
  var metadata: Logger.Metadata {
    get { [:] }
    set { _ = newValue }
  }
  subscript(metadataKey _: String) -> Logger.Metadata.Value? {
    get { nil }
    set { _ = newValue }
  }

  func log(event: LogEvent) {
    let trace = TraceContext.current.map { " trace=\($0.traceID)" } ?? ""
    lines.withLock { $0.append("\(event.message) \(event.metadata ?? [:])\(trace)") }
  }
}
