import FoundationEssentials
import Postgres
import Subscriptions

/// Where the dates are at which users came: the app's own table, Supabase's table of its users, or both.
///
/// A user may write the own row of the app's table, so its date may have been set back before receiptd guarded it. No user
/// writes `auth.users`: where it can be read, a row is as old as its user at most.
struct UserDates: CustomStringConvertible {
  /// Why the dates cannot be known.
  struct Unknown: Error, CustomStringConvertible {
    var description: String
  }

  private enum Source {
    /// - Parameter isUserHidden: whether `auth.users` has a date too, which this role may not read.
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

  /// Looks for the date of a row of this table.
  static func find(
    for table: ProfileTable, in pool: PostgresPool
  ) async throws -> Result<UserDates, Unknown> {
    let (name, user) = table.mirror == .profiles ? ("profiles", "id") : ("user_preferences", "user_id")
    let row = try await pool.query(
      """
      SELECT
        EXISTS (SELECT FROM pg_attribute
          WHERE attrelid = to_regclass(\(name)) AND attname = 'created_at' AND NOT attisdropped
            AND has_column_privilege(attrelid, attnum, 'SELECT')),
        date.is_readable IS NOT NULL, coalesce(date.is_readable, false)
      FROM (SELECT) AS one LEFT JOIN (
        -- Row level security would show other rows than there are.
        SELECT CASE WHEN has_schema_privilege(n.oid, 'USAGE') THEN has_column_privilege(c.oid, 'id', 'SELECT')
          AND has_column_privilege(c.oid, a.attnum, 'SELECT') AND NOT row_security_active(c.oid)
          ELSE false END AS is_readable
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'created_at' AND NOT a.attisdropped
        WHERE n.nspname = 'auth' AND c.relname = 'users'
      ) AS date ON true
      """)[0]
    let isInTable = try row.decode(0, as: Bool.self)
    let isInUsers = try row.decode(1, as: Bool.self)
    let source: Source
    switch (isInTable, try row.decode(2, as: Bool.self)) {
    case (true, true): source = .both
    case (false, true): source = .users
    case (true, false): source = .table(isUserHidden: isInUsers)
    case (false, false):
      return .failure(
        Unknown(
          description:
            "cannot know who was there before: \(name) has no column created_at that this role may read, "
            + "and auth.users is not there, has none or may not be read"))
    }
    return .success(UserDates(table: name, user: user, source: source))
  }

  /// Users from before an instant in order of their ids, and whether they have the award.
  func users(before instant: Date, after last: UUID?, bundleID: String, limit: Int) -> Query {
    let join = isUserRead ? "JOIN auth.users AS came ON came.id = own.\(user)" : ""
    return """
      SELECT own.\(unescaped: user), EXISTS (
        SELECT FROM grants WHERE bundle_id = \(bundleID) AND granted_by = 'grandfather'
          AND environment = 'Production' AND grants.user_id = own.\(unescaped: user))
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

  /// How many rows from before an instant are left out because `auth.users` has no such user.
  /// - Returns: `nil` where that table is not asked.
  func withoutUser(before instant: Date) -> Query? {
    guard case .both = source else { return nil }
    return """
      SELECT count(*) FROM \(unescaped: table) AS own
      WHERE own.created_at < \(instant)
        AND NOT EXISTS (SELECT FROM auth.users AS came WHERE came.id = own.\(unescaped: user))
      """
  }
}
