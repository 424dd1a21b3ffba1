import Logging

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
