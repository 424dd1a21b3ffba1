import CLibpq

/// An LRU cache of the prepared statements of one connection.
struct StatementCache {
  /// A prepared statement, or one whose preparation was sent.
  final class Statement {
    let text: StatementText
    let name: String
    let types: [Oid]
    fileprivate var lastUse: UInt64 = 0

    fileprivate init(text: StatementText, name: String, types: [Oid]) {
      self.text = text
      self.name = name
      self.types = types
    }
  }

  let capacity: Int
  private var statements: [StatementText: Statement] = [:]
  /// The names of statements that the server has and the cache evicted.
  private(set) var evicted: [String] = []
  private var uses: UInt64 = 0
  private var lastName = 0

  init(capacity: Int) {
    self.capacity = max(1, capacity)
  }

  var count: Int { statements.count }

  /// The statement for a query, if it is prepared for the same parameter types.
  mutating func statement(for query: Query) -> Statement? {
    guard let statement = statements[query.statement], statement.types == query.parameters.types else {
      return nil
    }
    uses += 1
    statement.lastUse = uses
    return statement
  }

  /// Adds a query that is about to be prepared, under a new name, so that it differs from names that are being closed.
  mutating func insert(_ query: Query) -> Statement {
    lastName += 1
    uses += 1
    let statement = Statement(text: query.statement, name: "s\(lastName)", types: query.parameters.types)
    statement.lastUse = uses
    if let replaced = statements.updateValue(statement, forKey: query.statement) {
      evicted.append(replaced.name)
    } else if statements.count > capacity, let oldest = statements.values.min(by: { $0.lastUse < $1.lastUse })
    {
      statements[oldest.text] = nil
      evicted.append(oldest.name)
    }
    return statement
  }

  /// Removes a statement whose preparation failed or did not run.
  mutating func forget(_ statement: Statement) {
    if statements[statement.text] === statement { statements[statement.text] = nil }
  }

  /// Removes all statements. They must be closed unless the server has dropped them too.
  mutating func removeAll(serverForgotToo: Bool) {
    if !serverForgotToo { evicted += statements.values.map(\.name) }
    statements.removeAll()
  }

  /// Removes and returns the names to close.
  mutating func takeEvicted() -> [String] {
    defer { evicted.removeAll() }
    return evicted
  }
}
