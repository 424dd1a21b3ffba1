import FoundationEssentials
import Glibc
import HTTP
import Logging

/// Writes each log message as one line of JSON on standard error.
struct JSONLogHandler: LogHandler {
  var logLevel: Logger.Level = .info
  var metadata: Logger.Metadata = [:]
  var metadataProvider: Logger.MetadataProvider?

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    var line: [String: String] = [
      "time": RFC3339.string(from: Date()), "level": event.level.rawValue, "message": "\(event.message)",
    ]
    // What is said of this message goes before what is said of all.
    for source in [metadataProvider?.get() ?? [:], metadata, event.metadata ?? [:]] {
      for (key, value) in source { line[key] = "\(value)" }
    }
    guard var bytes = try? JSONCoding.encode(line) else { return }
    bytes.append(UInt8(ascii: "\n"))
    // One call for the whole line, so that lines of several threads do not mix.
    _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
