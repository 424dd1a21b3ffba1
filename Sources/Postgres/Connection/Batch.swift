/// Statements that are sent together.
enum Batch {
  /// Statements in a pipeline, with or without a COMMIT after them.
  case queries([Query], commits: Bool = false)
  /// Statements in a pipeline, and further ones after a savepoint of this name.
  case attempt([Query], savepoint: String, [Query])
  /// A statement without values or rows, which is not prepared: COMMIT, ROLLBACK.
  case command(String)
  /// Statements without values in the simple query protocol.
  case script(String)

  /// The reason why the batch cannot be sent; nil if it can.
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
