import Foundation
import Postgres
import Subscriptions

/// The columns with users' sign-up dates: in the app's own table, in Supabase's `auth.users`, or in both.
///
/// Users may write their own row of the app's table, so its date may be forged. They cannot write `auth.users`: if it
/// is readable, the later one of both dates counts.
struct SignUpDates: CustomStringConvertible {
  /// The error for dates that cannot be read.
  struct Unavailable: Error, CustomStringConvertible {
    var description: String
  }

  private enum Source {
    /// - Parameter isUserHidden: whether `auth.users` has a date that this role may not read.
    case table(isUserHidden: Bool)
    case users
    case both
  }

  private let table: String
  private let user: String
  private let source: Source

  var description: String {
    switch source {
    case .table(isUserHidden: false): "\(table).created_at"
    case .table(isUserHidden: true): "\(table).created_at; this role may not read auth.users"
    case .users: "\(table), auth.users.created_at"
    case .both: "the later of \(table).created_at and auth.users.created_at"
    }
  }

  /// Finds the columns for a table of the app.
  static func find(
    for table: ProfileTable, in pool: PostgresPool
  ) async throws -> Result<SignUpDates, Unavailable> {
    let (name, user) = table.destination == .profiles ? ("profiles", "id") : ("user_preferences", "user_id")
    let row = try await pool.query(
      """
      SELECT
        -- The date in a table that receiptd made is that of its row, and not of the sign-up.
        NOT EXISTS (SELECT FROM client_write_modes
          WHERE table_name = \(name) AND table_name = 'user_preferences' AND NOT had_clients)
        AND EXISTS (SELECT FROM pg_attribute
          WHERE attrelid = to_regclass(\(name)) AND attname = 'created_at' AND NOT attisdropped
            -- Of another column the trigger does not keep the date, and a client may set it back.
            AND atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype) AND attgenerated = ''
            AND has_column_privilege(attrelid, attnum, 'SELECT')) AS table_has_date,
        date.is_readable IS NOT NULL AS users_have_date,
        coalesce(date.is_readable, false) AS is_users_date_readable
      FROM (SELECT) AS one LEFT JOIN (
        -- Row-level security would hide rows.
        SELECT CASE WHEN has_schema_privilege(n.oid, 'USAGE') THEN has_column_privilege(c.oid, 'id', 'SELECT')
          AND has_column_privilege(c.oid, a.attnum, 'SELECT') AND NOT row_security_active(c.oid)
          ELSE false END AS is_readable
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'created_at' AND NOT a.attisdropped
        WHERE n.nspname = 'auth' AND c.relname = 'users'
      ) AS date ON true
      """)[0]
    let source: Source
    switch (
      try row.decode("table_has_date", as: Bool.self), try row.decode("is_users_date_readable", as: Bool.self)
    ) {
    case (true, true): source = .both
    case (false, true): source = .users
    case (true, false): source = .table(isUserHidden: try row.decode("users_have_date"))
    case (false, false):
      return .failure(
        Unavailable(
          description:
            "the users' sign-up dates are unknown: this role can read a column created_at neither in \(name) "
            + "nor in auth.users; add it (timestamptz, timestamp or date, not generated) or grant SELECT on it"
        ))
    }
    return .success(SignUpDates(table: name, user: user, source: source))
  }

  /// Users who signed up before an instant, ordered by id (`user_id`), and whether they have the grant (`has_grant`).
  func users(before instant: Date, after last: UUID?, bundleID: String, limit: Int) -> Query {
    let join = isUserRead ? "JOIN auth.users AS came ON came.id = own.\(user)" : ""
    return """
      SELECT own.\(unescaped: user) AS user_id, EXISTS (
        SELECT FROM grants WHERE bundle_id = \(bundleID) AND granted_by = 'grandfather'
          AND environment = 'Production' AND grants.user_id = own.\(unescaped: user)) AS has_grant
      FROM \(unescaped: table) AS own \(unescaped: join)
      WHERE \(isOld(before: instant))
        AND (\(last)::uuid IS NULL OR own.\(unescaped: user) > \(last)::uuid)
      ORDER BY own.\(unescaped: user) LIMIT \(limit)
      """
  }

  private var isUserRead: Bool {
    if case .table = source { false } else { true }
  }

  private func isOld(before instant: Date) -> Query {
    switch source {
    case .table: "own.created_at < \(instant)"
    case .users: "came.created_at < \(instant)"
    case .both: "own.created_at < \(instant) AND came.created_at < \(instant)"
    }
  }

  /// Counts the rows from before an instant that are left out because `auth.users` has no such user (`rows`).
  /// - Returns: `nil` if that table is not read.
  func withoutUser(before instant: Date) -> Query? {
    guard case .both = source else { return nil }
    return """
      SELECT count(*) AS rows FROM \(unescaped: table) AS own
      WHERE own.created_at < \(instant)
        AND NOT EXISTS (SELECT FROM auth.users AS came WHERE came.id = own.\(unescaped: user))
      """
  }
}
