import Logging

/// What a line says of one thing. Numbers are numbers in JSON, so that whoever reads the lines can compare them.
enum LogValue: Encodable, CustomStringConvertible {
  case text(String)
  case integer(Int)
  case real(Double)

  /// A number only where `Int` or `Double` was handed over as such (`.stringConvertible`).
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
