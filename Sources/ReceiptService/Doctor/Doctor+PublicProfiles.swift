import Postgres

extension Doctor {
  /// Checks whether the policies of `profiles` let clients of the database read other users' premium columns.
  ///
  /// Supabase's example has such a policy. Row level security does not restrict columns, and a missing column privilege
  /// makes a client's `SELECT *` fail, so the operator must decide.
  /// - Returns: `nil` if clients cannot read them.
  static func publicPremium(_ pool: PostgresPool) async throws -> CheckResult? {
    let rows = try await pool.query(
      """
      SELECT string_agg(DISTINCT quote_ident(role.rolname), ', ') AS roles, (
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = profiles.oid AND attnum > 0 AND NOT attisdropped
          AND attname NOT IN ('premium_expires_at', 'premium_product_id', 'premium_original_transaction_id')) AS other_columns
      FROM pg_class profiles, pg_roles role
      WHERE profiles.oid = to_regclass('public.profiles') AND role.oid = ANY (receiptd_client_roles()::oid[])
        AND has_column_privilege(role.oid, profiles.oid, 'premium_original_transaction_id', 'SELECT')
        AND (NOT profiles.relrowsecurity OR EXISTS (
          SELECT FROM pg_policy
          WHERE polrelid = profiles.oid AND polpermissive AND polcmd IN ('r', '*')
            AND pg_get_expr(polqual, polrelid) = 'true' AND (polroles = '{0}'
              OR EXISTS (SELECT FROM unnest(polroles) AS named WHERE named <> 0 AND pg_has_role(role.oid, named, 'USAGE')))))
      GROUP BY profiles.oid
      """)
    guard let row = rows.first, let roles = try row.decode("roles", as: String?.self) else { return nil }
    let others = try row.decode("other_columns", as: String.self)
    return .fail(
      "table profiles",
      "its policies let \(roles) read every user's premium columns, which have the transaction ids of purchases",
      "REVOKE SELECT ON public.profiles FROM \(roles); GRANT SELECT (\(others)) ON public.profiles TO \(roles)"
    )
  }
}
