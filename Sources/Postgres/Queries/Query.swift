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
    statement.append("\(value)")
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
      statement = StatementText()
      parameters = PostgresParameters(reserving: interpolationCount)
    }

    /// Called by the compiler for the text between values.
    public mutating func appendLiteral(_ literal: StaticString) {
      statement.append("\(literal)")
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
      statement.append("\(fragment)")
    }

    /// Appends a fragment that the program made. Never pass untrusted text.
    @_disfavoredOverload
    public mutating func appendInterpolation(unescaped fragment: String) {
      statement.append(fragment)
    }
  }
}

/// The text of a statement, with numbered placeholders for its values.
struct StatementText: Sendable {
  private enum Piece: Sendable {
    case text(String)
    case value
    case element
  }

  /// The text for the server, with `$1`, `$2`, … for its values. It identifies the statement in the cache of prepared
  /// ones.
  private(set) var text = ""
  private var values = 0
  /// The parts of the text, from which a statement that contains this one makes a text with its own numbers.
  private var pieces: [Piece] = []

  mutating func append(_ fragment: String) {
    if fragment.isEmpty { return }
    pieces.append(.text(fragment))
    text += fragment
  }

  /// Appends a placeholder for the next value.
  mutating func appendValue() {
    pieces.append(.value)
    values += 1
    text += "$\(values)"
  }

  /// Appends a placeholder for the element at `given.place` of the next value, which is an array.
  mutating func appendElement() {
    pieces.append(.element)
    values += 1
    text += "$\(values)[given.place]"
  }

  mutating func append(_ other: StatementText) {
    for piece in other.pieces {
      switch piece {
      case .text(let fragment): append(fragment)
      case .value: appendValue()
      case .element: appendElement()
      }
    }
  }
}

extension StatementText: Hashable {
  static func == (a: Self, b: Self) -> Bool { a.text == b.text }

  func hash(into hasher: inout Hasher) { hasher.combine(text) }
}
