import Foundation

/// An SQL statement with bound values.
///
/// ```swift
/// let query: Query = "select * from subscriptions where device_id = \(deviceID)"
/// ```
/// binds `deviceID` as `$1`: a value never becomes part of the text. The prepared statement is cached by its text.
public struct Query: Sendable {
  let statement: StatementText
  /// The values.
  public let parameters: PostgresParameters

  /// The statement with `$1`, `$2`, … for its values.
  public var text: String { statement.text }

  private init(_ statement: StatementText, _ parameters: PostgresParameters) {
    self.statement = statement
    self.parameters = parameters
  }

  /// A statement from a string, without values. Never pass untrusted text.
  public init(unescaped text: String) {
    self.init(unescaped: text, PostgresParameters())
  }

  /// A statement from a string, with the values of another query.
  init(unescaped text: String, _ parameters: PostgresParameters) {
    var statement = StatementText()
    statement.append(text)
    self.init(statement, parameters)
  }
}

extension Query {
  /// `UNION ALL` of queries with the same columns.
  ///
  /// - Precondition: there is at least one query.
  public static func union(all queries: [Query]) -> Query {
    precondition(!queries.isEmpty, "union(all:) needs at least one query")
    return queries.dropFirst().reduce(queries[0]) { union, query in "\(union) UNION ALL \(query)" }
  }
}

extension Query: ExpressibleByStringInterpolation {
  /// A statement without values.
  public init(stringLiteral value: StaticString) {
    var statement = StatementText()
    statement.append(value)
    self.init(statement, PostgresParameters())
  }

  /// A statement whose interpolated values are bound.
  public init(stringInterpolation: StringInterpolation) {
    self.init(stringInterpolation.statement, stringInterpolation.parameters)
  }

  /// Collects the text and the values of an interpolated ``Query``.
  public struct StringInterpolation: StringInterpolationProtocol {
    var statement: StatementText
    @usableFromInline
    var parameters: PostgresParameters
    /// The form of the current table of values.
    @usableFromInline
    var form = TableForm.values

    /// The forms of a table of values.
    @usableFromInline
    enum TableForm {
      case values
      case indexed
      case arrays
    }

    /// Called by the compiler.
    public init(literalCapacity: Int, interpolationCount: Int) {
      statement = StatementText(reserving: literalCapacity, values: interpolationCount)
      parameters = PostgresParameters(reserving: interpolationCount)
    }

    /// Called by the compiler for the text between values.
    public mutating func appendLiteral(_ literal: StaticString) {
      statement.append(literal)
    }

    /// Binds a value and appends its `$n`.
    @inlinable
    public mutating func appendInterpolation(_ value: some PostgresEncodable) {
      value.encode(into: &parameters)
      appendPlaceholder()
    }

    /// Binds a value or NULL. A separate overload, because the compiler warns about optionals in a string.
    @inlinable
    public mutating func appendInterpolation<Value: PostgresEncodable>(_ value: Value?) {
      value.encode(into: &parameters)
      appendPlaceholder()
    }

    /// Appends another statement with its values.
    public mutating func appendInterpolation(_ query: Query) {
      statement.append(query.statement)
      parameters.append(query.parameters)
    }

    /// Begins a table of values: `FROM \(rows: 3) \(each: ids), \(each: names))) AS new (id, name)`. The text must end
    /// it with two parentheses. Each column is an array with a value for each row.
    ///
    /// The form depends on the number of rows:
    /// - One row is sent as values.
    /// - Some rows are sent as one array per column, and each value is read from its array by the row's index. `unnest`
    ///   with thirty arrays takes the server three times as long. The indices are an array too, because the planner
    ///   expects a thousand rows from `generate_series` and then prefers sequential scans.
    /// - Many rows are sent to `unnest`, because access to an array element takes time in proportion to its index.
    public mutating func appendInterpolation(rows count: Int) {
      switch count {
      case 1:
        form = .values
        statement.append("(VALUES (")
      case ...Self.maximumIndexedRows:
        form = .indexed
        statement.append("unnest(")
        appendInterpolation(Array(0..<Int32(clamping: count)).map { $0 + 1 })
        // A qualified name, so that it cannot be confused with a column.
        statement.append(") AS given (place), LATERAL ((SELECT ")
      default:
        form = .arrays
        statement.append("(SELECT * FROM unnest(")
      }
    }

    /// With a few hundred rows, access by index is slower than `unnest`.
    private static let maximumIndexedRows = 64

    /// A column of a table of values, with a value for each row.
    @inlinable
    public mutating func appendInterpolation<Value: PostgresArrayElement>(each values: [Value]) {
      if form == .values, let value = values.first {
        parameters.append(element: value)
      } else {
        Value.encodeArray(values, into: &parameters)
      }
      if form == .indexed { appendElementPlaceholder() } else { appendPlaceholder() }
    }

    @usableFromInline
    mutating func appendPlaceholder() {
      statement.appendValue()
    }

    @usableFromInline
    mutating func appendElementPlaceholder() {
      statement.appendElement()
    }

    /// Appends a literal fragment, such as an identifier.
    public mutating func appendInterpolation(unescaped fragment: StaticString) {
      statement.append(fragment)
    }

    /// Appends a fragment that the program made. Never pass untrusted text.
    @_disfavoredOverload
    public mutating func appendInterpolation(unescaped fragment: String) {
      statement.append(fragment)
    }
  }
}

/// The text of a statement, with numbered placeholders for its values: `$1`, `$2`, …
///
/// It is made anew for each query, and identifies the statement in the cache of prepared ones.
struct StatementText: Sendable {
  /// The `$n` of a value in the text.
  private struct Placeholder: Sendable {
    /// The place of the `$` in the text.
    var start: Int
    /// The place after the number.
    var end: Int
  }

  /// UTF-8, without a NUL at its end.
  private(set) var bytes: [UInt8] = []
  /// A statement that contains this one replaces them by its own numbers.
  private var placeholders: [Placeholder] = []

  /// Room for a text of this length, and for as many values.
  init(reserving length: Int = 0, values: Int = 0) {
    bytes.reserveCapacity(length + values * 4)
    placeholders.reserveCapacity(values)
  }

  /// The text for the server.
  var text: String { String(decoding: bytes, as: UTF8.self) }

  mutating func append(_ fragment: String) {
    bytes.append(utf8: fragment)
  }

  mutating func append(_ fragment: StaticString) {
    fragment.withUTF8Buffer { bytes.append(contentsOf: $0) }
  }

  /// Appends a placeholder for the next value.
  mutating func appendValue() {
    let start = bytes.count
    bytes.append(UInt8(ascii: "$"))
    bytes.append(utf8: String(placeholders.count + 1))
    placeholders.append(Placeholder(start: start, end: bytes.count))
  }

  /// Appends a placeholder for the element at `given.place` of the next value, which is an array.
  mutating func appendElement() {
    appendValue()
    append("[given.place]")
  }

  mutating func append(_ other: StatementText) {
    var copied = 0
    for placeholder in other.placeholders {
      bytes += other.bytes[copied..<placeholder.start]
      appendValue()
      copied = placeholder.end
    }
    bytes += other.bytes[copied...]
  }
}

extension StatementText: Hashable {
  /// `==` of arrays compares one byte after the other, and `memcmp` many at once.
  static func == (a: Self, b: Self) -> Bool {
    a.bytes.count == b.bytes.count && memcmp(a.bytes, b.bytes, a.bytes.count) == 0
  }

  /// The length and the last bytes tell most statements apart; `==` compares all bytes.
  func hash(into hasher: inout Hasher) {
    hasher.combine(bytes.count)
    bytes.suffix(32).withUnsafeBytes { hasher.combine(bytes: $0) }
  }
}
