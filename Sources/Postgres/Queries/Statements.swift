/// The statements of one round trip, each with the way to read its rows.
///
/// ``add(_:reading:)`` gives a handle, by which the rows are found in the answers: no statement is known by its position.
public struct Statements {
  /// In the order in which they were added.
  public private(set) var queries: [Query] = []

  /// No statements.
  public init() {}

  /// A statement of these, whose rows are values of one type.
  public struct Handle<Value> {
    fileprivate let place: Int
    fileprivate let read: (Row) throws -> Value
  }

  /// Adds a statement whose rows are read as they are, or not at all.
  @discardableResult
  public mutating func add(_ query: Query) -> Handle<Row> { add(query) { $0 } }

  /// Adds statements whose rows are not read.
  public mutating func add(_ more: [Query]) { queries += more }

  /// Adds a statement.
  /// - Parameter read: the value of a row.
  public mutating func add<Value>(
    _ query: Query, reading read: @escaping (Row) throws -> Value
  ) -> Handle<Value> {
    queries.append(query)
    return Handle(place: queries.count - 1, read: read)
  }

  /// The rows of the statements.
  public struct Answers {
    fileprivate let rows: [Rows]

    /// The values of a statement's rows, in order.
    /// - Throws: the error of the handle's reading.
    public subscript<Value>(handle: Handle<Value>) -> [Value] {
      get throws { try rows[handle.place].map(handle.read) }
    }

    /// The values of a statement that was perhaps not added; none without it.
    public subscript<Value>(handle: Handle<Value>?) -> [Value] {
      get throws { try handle.map { try self[$0] } ?? [] }
    }

    /// The number of rows that a statement inserted, updated or deleted.
    public func affected<Value>(by handle: Handle<Value>) -> Int { rows[handle.place].affected }
  }
}

extension PostgresConnection {
  /// Runs the statements as ``pipeline(_:timeout:)`` does.
  nonisolated(nonsending) public func answers(to statements: Statements) async throws -> Statements.Answers {
    Statements.Answers(rows: try await pipeline(statements.queries))
  }

  /// Runs the statements and commits, as ``commit(after:)`` does.
  nonisolated(nonsending) public func commit(
    after statements: Statements
  ) async throws -> Statements.Answers {
    Statements.Answers(rows: try await commit(after: statements.queries))
  }

  /// Runs the statements and an attempt, as ``pipeline(_:attempting:within:)`` does.
  nonisolated(nonsending) public func answers(
    to statements: Statements, attempting more: [Query], within time: Duration = .zero
  ) async throws -> (answers: Statements.Answers, attempt: Result<SavepointAttempt, PostgresError>) {
    let (rows, attempt) = try await pipeline(statements.queries, attempting: more, within: time)
    return (Statements.Answers(rows: rows), attempt)
  }
}
