import Postgres

extension Doctor {
  /// What clients of the database can see of other users' premium, where the app has made its profiles public: Supabase's
  /// own example has such a policy. Row level security knows no columns, and taking a column away makes `SELECT *` fail
  /// for those clients, so that is the operator's to decide.
  /// - Returns: `nil` where nothing is to be said.
  static func publicPremium(_ pool: PostgresPool) async throws -> Finding? {
    let rows = try await pool.query(
      """
      SELECT string_agg(DISTINCT quote_ident(role.rolname), ', '), (
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = profiles.oid AND attnum > 0 AND NOT attisdropped
          AND attname NOT IN ('premium_expires_at', 'premium_product_id', 'premium_original_transaction_id'))
      FROM pg_class profiles, pg_roles role
      WHERE profiles.oid = to_regclass('public.profiles') AND role.rolname IN ('anon', 'authenticated')
        AND has_column_privilege(role.oid, profiles.oid, 'premium_original_transaction_id', 'SELECT')
        AND (NOT profiles.relrowsecurity OR EXISTS (
          SELECT FROM pg_policy
          WHERE polrelid = profiles.oid AND polpermissive AND polcmd IN ('r', '*')
            AND (polroles = '{0}' OR role.oid = ANY(polroles)) AND pg_get_expr(polqual, polrelid) = 'true'))
      GROUP BY profiles.oid
      """)
    guard let row = rows.first, let roles = try row.decode(0, as: String?.self) else { return nil }
    let others = try row.decode(1, as: String.self)
    return .fail(
      "table profiles",
      "its policies let \(roles) read every user's premium columns, and so the ids by which purchases are found",
      "REVOKE SELECT ON public.profiles FROM \(roles); GRANT SELECT (\(others)) ON public.profiles TO \(roles)"
    )
  }
}
