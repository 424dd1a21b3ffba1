import Foundation
import HTTP
import Logging
import ReceiptService
import Text

/// Writes each message as one line of the log.
struct LineLogHandler: LogHandler {
  var logLevel: Logger.Level = .info
  var metadata: Logger.Metadata = [:]
  var metadataProvider: Logger.MetadataProvider?
  private let format: LogFormat
  private let writer: LogWriter

  init(_ format: LogFormat, to writer: LogWriter, metadataProvider: Logger.MetadataProvider? = nil) {
    self.format = format
    self.writer = writer
    self.metadataProvider = metadataProvider
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    var fields: [String: LogValue] = [:]
    // The message's own metadata takes precedence.
    for source in [metadataProvider?.get() ?? [:], metadata, event.metadata ?? [:]] {
      for (key, value) in source { fields[key] = LogValue(value) }
    }
    let now = Date()
    writer.append(format.line(now, event.level, "\(event.message)", fields)) { count in
      format.line(
        now, .warning, "log lines were lost because the reader was too slow", ["lines": .integer(count)])
    }
  }
}

/// The format of a log line.
enum LogFormat {
  /// An object, for machines.
  case json
  /// For people.
  case text

  /// The line with its line feed.
  func line(
    _ time: Date, _ level: Logger.Level, _ message: String, _ fields: [String: LogValue]
  ) -> [UInt8] {
    let time = RFC3339.string(from: time, to: .milliseconds)
    switch self {
    case .json:
      let own: [String: LogValue] = [
        "time": .text(time), "level": .text(level.rawValue), "message": .text(message),
      ]
      guard let object = try? JSONCoding.encode(own.merging(fields) { $1 }) else { return [] }
      return object + [UInt8(ascii: "\n")]
    case .text:
      let words = [time, level.rawValue, message] + fields.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }
      // A control character in a value must neither start a new line nor reach the terminal.
      return Array((words.joined(separator: " ").shown + "\n").utf8)
    }
  }
}

/// A value of a log line. Numbers stay numbers in JSON, so that log readers can compare them.
enum LogValue: Encodable, CustomStringConvertible {
  case text(String)
  case integer(Int)
  case real(Double)

  /// A number if the value is an `Int` or a `Double` in `.stringConvertible`; otherwise a text.
  init(_ value: Logger.Metadata.Value) {
    self =
      switch value {
      case .stringConvertible(let number as Int): .integer(number)
      case .stringConvertible(let number as Double) where number.isFinite: .real(number)
      default: .text("\(value)")
      }
  }

  var description: String {
    switch self {
    case .text(let text): text
    case .integer(let number): "\(number)"
    case .real(let number): "\(number)"
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .text(let text): try container.encode(text)
    case .integer(let number): try container.encode(number)
    case .real(let number): try container.encode(number)
    }
  }
}
