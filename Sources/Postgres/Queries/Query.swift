/// An SQL statement with its values apart from its text.
///
/// ```swift
/// let query: Query = "select * from subscriptions where device_id = \(deviceID)"
/// ```
/// binds `deviceID` as `$1`: no value ever becomes part of the text. A connection remembers the prepared
/// statement by the place of its literals in the program, so a query should be written in one place, which
/// each of its uses goes through.
public struct Query: Sendable {
  let statement: StatementText
  /// The values.
  public let parameters: PostgresParameters

  /// The statement, with `$1`, `$2`, … where values stand. Put together each time.
  public var text: String { statement.text }

  private init(_ statement: StatementText, _ parameters: PostgresParameters) {
    self.statement = statement
    self.parameters = parameters
  }

  /// A statement made by code, without values. Never pass text that came from outside.
  public init(unescaped text: String) {
    self.init(unescaped: text, PostgresParameters())
  }

  /// A statement made by code, with the values of another.
  init(unescaped text: String, _ parameters: PostgresParameters) {
    var statement = StatementText()
    statement.append(fragment: text)
    self.init(statement, parameters)
  }
}

extension Query {
  /// The rows of all of these, which have the same columns.
  ///
  /// - Precondition: there is one at least.
  public static func union(all queries: [Query]) -> Query {
    precondition(!queries.isEmpty, "a statement without text is none")
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
    /// Of the table of values that is being written.
    @usableFromInline
    var form = TableForm.values

    /// How a table of values is sent.
    @usableFromInline
    enum TableForm {
      case values
      case places
      case arrays
    }

    /// Called by the compiler.
    public init(literalCapacity: Int, interpolationCount: Int) {
      statement = StatementText(reservingValues: interpolationCount)
      parameters = PostgresParameters(reserving: interpolationCount)
    }

    /// Called by the compiler for the text between values.
    public mutating func appendLiteral(_ literal: StaticString) {
      statement.append(literal)
    }

    /// Binds a value and leaves its `$n` in the text.
    @inlinable
    public mutating func appendInterpolation(_ value: some PostgresEncodable) {
      value.encode(into: &parameters)
      leavePlace()
    }

    /// Binds a value, or NULL. (An overload of its own, because the compiler warns of optionals in a string.)
    @inlinable
    public mutating func appendInterpolation<Value: PostgresEncodable>(_ value: Value?) {
      value.encode(into: &parameters)
      leavePlace()
    }

    /// Puts another statement into this one, with its values.
    public mutating func appendInterpolation(_ query: Query) {
      statement.append(query.statement)
      parameters.append(query.parameters)
    }

    /// Begins a table of values: `FROM \(rows: 3) \(each: ids), \(each: names))) AS new (id, name)`, with the two
    /// brackets that end it. Each column has an array with a value for each row; in a list of columns, `new.*` is all of
    /// them.
    ///
    /// A table of one row is sent as its values. Of more, each value is taken out of its column's array where it is needed:
    /// `unnest` with an array for each of thirty columns builds thirty tables first, which takes the server three times as
    /// long. The places have an array too: of `generate_series` the planner expects a thousand rows, and would rather
    /// read all of a table than look up so many in it. To get at an element the server walks there from the first one, so
    /// many rows are left to `unnest`.
    public mutating func appendInterpolation(rows count: Int) {
      switch count {
      case 1:
        form = .values
        statement.append("(VALUES (")
      case ...Self.rowsByPlace:
        form = .places
        statement.append("unnest(")
        appendInterpolation(Array(0..<Int32(clamping: count)).map { $0 + 1 })
        // A qualified name, which no column of a table that is written can be taken for.
        statement.append(") AS given (place), LATERAL ((SELECT ")
      default:
        form = .arrays
        statement.append("(SELECT * FROM unnest(")
      }
    }

    /// Of up to so many rows each value is taken out of an array by its place. Of a few hundred that costs more than it
    /// saves.
    private static let rowsByPlace = 64

    /// A column of a table of values, with as many values as it has rows.
    @inlinable
    public mutating func appendInterpolation<Value: PostgresArrayElement>(each values: [Value]) {
      if form == .values, let value = values.first {
        parameters.append(element: value)
      } else {
        Value.encodeArray(values, into: &parameters)
      }
      if form == .places { leaveElement() } else { leavePlace() }
    }

    @usableFromInline
    mutating func leavePlace() {
      statement.appendValue()
    }

    @usableFromInline
    mutating func leaveElement() {
      statement.appendElement()
    }

    /// Puts an identifier or a fragment that stands in the code into the text as it is.
    public mutating func appendInterpolation(unescaped fragment: StaticString) {
      statement.append(fragment)
    }

    /// Puts an identifier or a fragment that the code itself made into the text as it is.
    /// Never pass text that came from outside.
    @_disfavoredOverload
    public mutating func appendInterpolation(unescaped fragment: String) {
      statement.append(fragment: fragment)
    }
  }
}
