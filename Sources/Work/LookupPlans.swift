import Postgres

/// Planner settings for statements that find rows by their keys.
///
/// Such a statement has one good plan, an index scan, for tables and key lists of any size. By default PostgreSQL plans
/// each call again, which takes longer than to run the plan; or it keeps a sequential scan that it chose while the table
/// was empty, until the next ANALYZE.
package enum LookupPlans {
  /// Until the end of the transaction, plans are generic and use index scans. Disabled sequential scans inflate cost
  /// estimates, so JIT is disabled too: it would trigger on them.
  ///
  /// Bitmap scans pay off for thousands of rows. Here the planner would choose them for an estimate of ten, which costs a
  /// tenth of the database's time for a lone transaction. Only a bitmap scan can combine two indexes, so no statement here
  /// may have an OR over two indexed columns.
  package static let useIndexScans: Query = "SELECT \(unescaped: settings)"

  /// The same, as an expression.
  static let settings: StaticString = """
    set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('enable_seqscan', 'off', true)
      || set_config('enable_bitmapscan', 'off', true) || set_config('jit', 'off', true)
    """
}
