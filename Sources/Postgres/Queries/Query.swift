/// An SQL statement with its values apart from its text.
///
/// ```swift
/// let query: Query = "select * from subscriptions where device_id = \(deviceID)"
/// ```
/// binds `deviceID` as `$1`: no value ever becomes part of the text. The text is also the key
/// under which a connection remembers the prepared statement, so a query should be written with
/// the same text each time it runs.
public struct Query: Sendable {
  /// The statement, with `$1`, `$2`, … where values stand.
  public let text: String
  /// The values.
  public let parameters: PostgresParameters

  init(text: String, parameters: PostgresParameters = PostgresParameters()) {
    self.text = text
    self.parameters = parameters
  }

  /// A statement made by code, without values. Never pass text that came from outside.
  public init(unescaped text: String) {
    self.init(text: text)
  }
}

extension Query: ExpressibleByStringInterpolation {
  /// A statement without values.
  public init(stringLiteral value: String) {
    self.init(text: value)
  }

  /// A statement whose interpolated values are bound.
  public init(stringInterpolation: StringInterpolation) {
    self.init(text: stringInterpolation.text, parameters: stringInterpolation.parameters)
  }

  /// Collects the text and the values of an interpolated ``Query``.
  public struct StringInterpolation: StringInterpolationProtocol {
    var text: String
    var parameters: PostgresParameters

    /// Called by the compiler.
    public init(literalCapacity: Int, interpolationCount: Int) {
      text = ""
      text.reserveCapacity(literalCapacity + 3 * interpolationCount)
      parameters = PostgresParameters(reserving: interpolationCount)
    }

    /// Called by the compiler for the text between values.
    public mutating func appendLiteral(_ literal: String) {
      text += literal
    }

    /// Binds a value and leaves its `$n` in the text.
    public mutating func appendInterpolation(_ value: some PostgresEncodable) {
      value.encode(into: &parameters)
      text += "$"
      text += String(parameters.count)
    }

    /// Puts an identifier or a fragment that the code itself wrote into the text as it is.
    /// Never pass text that came from outside.
    public mutating func appendInterpolation(unescaped fragment: String) {
      text += fragment
    }
  }
}
