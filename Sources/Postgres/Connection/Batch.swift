/// What to send in one go.
enum Batch {
  /// Statements in a pipeline, answered by their rows; and COMMIT after them.
  case queries([Query], commits: Bool = false)
  /// A statement without values or rows that is not worth preparing: COMMIT, ROLLBACK.
  case command(String)
  /// Any number of statements without values, in the simple protocol.
  case script(String)

  /// Why this cannot be sent, checked before anything of it is.
  var problem: PostgresError? {
    guard case .queries(let queries, _) = self else { return nil }
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
