import Postgres

/// How statements that find rows by their keys are planned.
///
/// Such a statement has one good plan, by the index, however large its tables are and however many keys it is
/// given. PostgreSQL does not know that. It plans for the keys of each call anew, which takes longer than to
/// run the plan; or it keeps a plan that it made while the table was empty, which reads the whole table, and
/// goes on with it while the table grows, until the statistics are next gathered.
enum LookupPlans {
  /// To the end of the transaction (a pipeline without one is one itself), statements are planned once for all
  /// values, and read no table whole that has an index to go by. Since a table that has none now looks
  /// immensely dear, plans are not compiled for being dear.
  ///
  /// Of the two ways to go by an index, the one that gathers the places of the rows first pays off for thousands. Here it
  /// would be chosen for a guess of ten, and is two steps to get ready in place of one: a tenth of the database's time
  /// for a lone transaction. It is also the only way to go by two indexes, so no statement here may say OR over columns
  /// that have one each.
  static let fromHere: Query = "SELECT \(unescaped: settings)"

  /// The same, as an expression.
  static let settings: StaticString = """
    set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('enable_seqscan', 'off', true)
      || set_config('enable_bitmapscan', 'off', true) || set_config('jit', 'off', true)
    """
}
