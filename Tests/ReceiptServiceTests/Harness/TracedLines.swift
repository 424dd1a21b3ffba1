import HTTP
import Logging
import Synchronization

/// What was logged, and of which trace.
final class TracedLines: LogHandler {
  private let lines = Mutex<[(message: String, trace: String?)]>([])

  var all: [(message: String, trace: String?)] { lines.withLock { $0 } }

  var logLevel: Logger.Level {
    get { .info }
    set {}
  }
  var metadata: Logger.Metadata {
    get { [:] }
    set {}
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { nil }
    set {}
  }

  func log(event: LogEvent) {
    let trace = TraceContext.current.map { "\($0.traceID)" }
    lines.withLock { $0.append(("\(event.message)", trace)) }
  }
}
