import Postgres

extension Doctor {
  /// The privileges on receiptd's tables that `serve` needs. The function `receiptd_set_rights()` grants them.
  private static let needed: [(privileges: String, relations: [String])] = [
    (
      "SELECT INSERT UPDATE DELETE",
      ["outbox", "devices", "purchase_devices", "event_bytes_daily", "device_secrets"]
    ),
    (
      "SELECT INSERT UPDATE",
      [
        "adoptions", "adoption_runs", "subscriptions", "transactions", "renewals", "notifications", "trials",
        "grants",
        "free_access",
        "reconcile_positions", "outbox_destinations", "entitlement_keys", "kpi_days", "configured_apps",
        "people",
      ]
    ),
    (
      "SELECT INSERT DELETE",
      [
        "events", "kpi_daily_figures", "kpi_daily_money", "kpi_daily_cohorts", "kpi_daily_trials",
        "kpi_daily_value", "kpi_daily_prices", "kpi_losses_daily", "kpi_late_facts", "kpi_events_daily",
        "people_tokens",
      ]
    ),
    ("SELECT UPDATE", ["client_write_modes"]),
    ("SELECT UPDATE DELETE", ["client_writes"]),
    ("SELECT INSERT", ["jws_headers", "support_actions", "reconcile_runs"]),
    ("SELECT INSERT DELETE", ["added_profile_rows", "store_orders"]),
  ]

  /// The tables that `serve` needs.
  static let tables = needed.flatMap(\.relations)

  /// The functions that `serve` calls. They run with the rights of the tables' owner.
  private static let neededFunctions = [
    "receiptd_forget_notifications(integer)", "receiptd_forget_transactions(integer)",
    "receiptd_erased_account(text)", "receiptd_has_account(text, text)", "receiptd_impersonal_claims(text)",
    "receiptd_writes_premium(regclass, text)", "receiptd_secret_columns()", "receiptd_rights()",
    "receiptd_client_roles()",
    "receiptd_erase_actions(text, text, text[], text[], text, text, text, bigint, text, jsonb, timestamptz)",
  ]

  /// SQL: whether row level security hides rows of the table `guarded` from the connected role. It does without a policy that
  /// permits everything, or with a restrictive policy.
  static let hidesRows: StaticString = """
    row_security_active(guarded) AND NOT coalesce((
      SELECT bool_or(polpermissive AND polcmd = '*' AND pg_get_expr(polqual, polrelid) = 'true')
        AND bool_and(polpermissive)
      FROM pg_policy WHERE polrelid = guarded AND (polroles = '{0}'
        OR EXISTS (SELECT FROM unnest(polroles) AS role WHERE role <> 0 AND pg_has_role(role, 'USAGE')))), false)
    """

  /// Checks that the role has the privileges that `serve` needs, and reports whether it owns the tables.
  func privileges(_ pool: PostgresPool) async throws -> CheckResult {
    var missing: [String] = []
    for (privileges, relations) in Self.needed {
      let names = privileges.split(separator: " ").map(String.init)
      missing += try await pool.query(
        """
        SELECT relation || ' (' || privilege || ')' AS missing
        FROM unnest(\(relations)::text[]) AS relation, unnest(\(names)::text[]) AS privilege,
          to_regclass('public.' || relation) AS guarded
        WHERE NOT coalesce(has_table_privilege(guarded, privilege), false) OR \(unescaped: Self.hidesRows)
        ORDER BY 1
        """
      ).map { try $0.decode("missing", as: String.self) }
    }
    missing += try await pool.query(
      """
      SELECT name || ' (EXECUTE)' AS missing FROM unnest(\(Self.neededFunctions)::text[]) AS name
      WHERE NOT coalesce(has_function_privilege(to_regprocedure('public.' || name), 'EXECUTE'), false)
      """
    ).map { try $0.decode("missing", as: String.self) }
    if let first = missing.first {
      let others = missing.count > 1 ? " and \(missing.count - 1) more" : ""
      return .fail(
        "privileges", "the role lacks \(first)\(others)",
        "connect as receiptd_app, after the tables' owner has run SELECT receiptd_set_rights()")
    }
    let owns = try await pool.query(
      """
      SELECT pg_has_role(relowner, 'USAGE') AS is_owner FROM pg_class WHERE oid = to_regclass('public.subscriptions')
      """)[0]
    return try owns.decode("is_owner", as: Bool.self)
      ? .ok("privileges", "the role has all that it needs, and owns the tables; receiptd_app would not")
      : .ok("privileges", "the role has all that it needs, and cannot alter the tables")
  }
}
