import CLibpq

/// The prepared statements of one connection, by where their text stands in the program.
struct StatementCache {
  /// A prepared statement, or one whose preparation is on its way.
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
  /// Names that the server still knows and nobody will use again.
  private(set) var abandoned: [String] = []
  private var uses: UInt64 = 0
  private var lastName = 0

  init(capacity: Int) {
    self.capacity = max(1, capacity)
  }

  var count: Int { statements.count }

  /// The statement for a query, if it is prepared for the same types of values.
  mutating func statement(for query: Query) -> Statement? {
    guard let statement = statements[query.statement], statement.types == query.parameters.types else {
      return nil
    }
    uses += 1
    statement.lastUse = uses
    return statement
  }

  /// Enters a query that is about to be prepared, and gives it a name that was never used before:
  /// a name that is still being closed cannot be confused with it.
  mutating func insert(_ query: Query) -> Statement {
    lastName += 1
    uses += 1
    let statement = Statement(text: query.statement, name: "s\(lastName)", types: query.parameters.types)
    statement.lastUse = uses
    if let replaced = statements.updateValue(statement, forKey: query.statement) {
      abandoned.append(replaced.name)
    } else if statements.count > capacity, let oldest = statements.values.min(by: { $0.lastUse < $1.lastUse })
    {
      statements[oldest.text] = nil
      abandoned.append(oldest.name)
    }
    return statement
  }

  /// Forgets a statement whose preparation failed or never ran.
  mutating func forget(_ statement: Statement) {
    if statements[statement.text] === statement { statements[statement.text] = nil }
  }

  /// Forgets all of them. Those that the server may still know are to be closed.
  mutating func removeAll(serverForgotToo: Bool) {
    if !serverForgotToo { abandoned += statements.values.map(\.name) }
    statements.removeAll()
  }

  /// Hands over the names to close.
  mutating func takeAbandoned() -> [String] {
    defer { abandoned.removeAll() }
    return abandoned
  }
}
