import Postgres

extension Doctor {
  /// What serving needs of receiptd's own tables, as `20260204_add_application_role.sql` grants it.
  private static let needed: [(privileges: String, relations: [String])] = [
    (
      "SELECT INSERT UPDATE DELETE",
      ["outbox", "devices", "purchase_devices", "event_bytes_daily", "device_secrets"]
    ),
    (
      "SELECT INSERT UPDATE",
      [
        "subscriptions", "transactions", "renewals", "notifications", "trials", "grants", "free_access",
        "reconcile_positions", "outbox_lanes", "entitlement_keys", "kpi_days", "configured_apps",
      ]
    ),
    ("SELECT INSERT DELETE", ["events", "kpi_daily_figures", "kpi_daily_money", "kpi_events_daily"]),
    ("SELECT INSERT", ["jws_headers", "support_actions", "reconcile_runs"]),
  ]

  /// The tables that serving needs.
  static let tables = needed.flatMap(\.relations)

  /// What serving has done by the tables' owner, as `20260205_divide_into_months.sql` allows it.
  private static let neededFunctions = [
    "receiptd_make_months()", "receiptd_look_at_months()", "receiptd_forget_notifications(integer)",
    "receiptd_forget_transactions(integer)",
  ]

  /// Whether row level security leaves the connected role less than all rows of the table `guarded`: without a policy that
  /// lets it do everything, or with one that takes something back.
  static let hidesRows: StaticString = """
    row_security_active(guarded) AND NOT coalesce((
      SELECT bool_or(polpermissive AND polcmd = '*' AND pg_get_expr(polqual, polrelid) = 'true')
        AND bool_and(polpermissive)
      FROM pg_policy WHERE polrelid = guarded AND (polroles = '{0}'
        OR EXISTS (SELECT FROM unnest(polroles) AS role WHERE role <> 0 AND pg_has_role(role, 'USAGE')))), false)
    """

  /// Whether the role may do with receiptd's own tables what serving needs, and whether it may do more.
  func rights(_ pool: PostgresPool) async throws -> Finding {
    var missing: [String] = []
    for (privileges, relations) in Self.needed {
      let words = privileges.split(separator: " ").map(String.init)
      missing += try await pool.query(
        """
        SELECT relation || ' (' || privilege || ')'
        FROM unnest(\(relations)::text[]) AS relation, unnest(\(words)::text[]) AS privilege,
          to_regclass('public.' || relation) AS guarded
        WHERE NOT coalesce(has_table_privilege(guarded, privilege), false) OR \(unescaped: Self.hidesRows)
        ORDER BY 1
        """
      ).map { try $0.decode(0, as: String.self) }
    }
    missing += try await pool.query(
      """
      SELECT name || ' (EXECUTE)' FROM unnest(\(Self.neededFunctions)::text[]) AS name
      WHERE NOT coalesce(has_function_privilege(to_regprocedure('public.' || name), 'EXECUTE'), false)
      """
    ).map { try $0.decode(0, as: String.self) }
    if let first = missing.first {
      let others = missing.count > 1 ? " and \(missing.count - 1) more" : ""
      return .fail(
        "rights", "the role may not use \(first)\(others)",
        "connect as receiptd_app, after the tables' owner has run SELECT receiptd_open_to_application()")
    }
    let owns = try await pool.query(
      """
      SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('public.subscriptions')
      """)[0]
    return try owns.decode(0, as: Bool.self)
      ? .ok("rights", "the role may write all that it must, and change the tables; receiptd_app could not")
      : .ok("rights", "the role may write all that it must, and not change the tables")
  }
}
