/// What to send in one go.
enum Batch {
  /// Statements in a pipeline, answered by their rows; and COMMIT after them.
  case queries([Query], commits: Bool = false)
  /// Statements in a pipeline, and others after them under a savepoint of this name.
  case attempt([Query], savepoint: String, [Query])
  /// A statement without values or rows that is not worth preparing: COMMIT, ROLLBACK.
  case command(String)
  /// Any number of statements without values, in the simple protocol.
  case script(String)

  /// Why this cannot be sent, checked before anything of it is.
  var problem: PostgresError? {
    let queries: [Query]
    switch self {
    case .queries(let given, _): queries = given
    case .attempt(let first, _, let more): queries = first + more
    case .command, .script: return nil
    }
    for query in queries {
      if let problem = query.parameters.problem { return PostgresError(.encoding(problem)) }
      // The protocol counts values in 16 bits.
      if query.parameters.count > UInt16.max {
        return PostgresError(.encoding("a query has more than 65535 values"))
      }
    }
    return nil
  }
}
