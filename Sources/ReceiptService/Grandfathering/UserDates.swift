import FoundationEssentials
import Postgres
import Subscriptions

/// Where it stands when users came: in the app's own table, or in Supabase's of its users.
struct UserDates: CustomStringConvertible {
  /// Why nobody can know.
  struct Unknown: Error, CustomStringConvertible {
    var description: String
  }

  private let table: String
  private let user: String
  private let isInUsers: Bool

  var description: String { isInUsers ? "\(table), auth.users.created_at" : "\(table).created_at" }

  /// Looks for the date of a row of this table.
  static func find(
    for table: ProfileTable, in pool: PostgresPool
  ) async throws -> Result<UserDates, Unknown> {
    let (name, user) = table.mirror == .profiles ? ("profiles", "id") : ("user_preferences", "user_id")
    let row = try await pool.query(
      """
      SELECT
        EXISTS (SELECT FROM pg_attribute
          WHERE attrelid = to_regclass(\(name)) AND attname = 'created_at' AND NOT attisdropped),
        EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'created_at' AND NOT a.attisdropped
          WHERE n.nspname = 'auth' AND c.relname = 'users' AND has_schema_privilege(n.oid, 'USAGE')
            AND has_table_privilege(c.oid, 'SELECT'))
      """)[0]
    if try row.decode(0, as: Bool.self) {
      return .success(UserDates(table: name, user: user, isInUsers: false))
    }
    if try row.decode(1, as: Bool.self) {
      return .success(UserDates(table: name, user: user, isInUsers: true))
    }
    return .failure(
      Unknown(
        description: "cannot know who was there before: \(name) has no column created_at, and auth.users is "
          + "not there, has none or may not be read"))
  }

  /// Users from before an instant in order of their ids, and whether they have the award.
  func users(before instant: Date, after last: UUID?, bundleID: String, limit: Int) -> Query {
    let join = isInUsers ? "JOIN auth.users AS came ON came.id = own.\(user)" : ""
    let date = isInUsers ? "came.created_at" : "own.created_at"
    return """
      SELECT own.\(unescaped: user), EXISTS (
        SELECT FROM grants WHERE bundle_id = \(bundleID) AND granted_by = 'grandfather'
          AND environment = 'Production' AND grants.user_id = own.\(unescaped: user))
      FROM \(unescaped: table) AS own \(unescaped: join)
      WHERE \(unescaped: date) < \(instant)
        AND (\(last)::uuid IS NULL OR own.\(unescaped: user) > \(last)::uuid)
      ORDER BY own.\(unescaped: user) LIMIT \(limit)
      """
  }
}
