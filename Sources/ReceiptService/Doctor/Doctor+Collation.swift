import Postgres

extension Doctor {
  /// Checks that the database compares texts by bytes.
  func collation(_ pool: PostgresPool) async throws -> CheckResult {
    // Before PostgreSQL 15 there is no column datlocprovider.
    let row = try await pool.query(
      """
      SELECT datcollate::text AS collation, coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') AS provider
      FROM pg_database d WHERE datname = current_database()
      """)[0]
    return Self.check(
      collation: try row.decode("collation", as: String.self),
      provider: try row.decode("provider", as: String.self))
  }

  /// - Parameter provider: `pg_database.datlocprovider`: `c` the C library, `i` ICU, `b` PostgreSQL itself.
  static func check(collation: String, provider: String) -> CheckResult {
    let comparesBytes = ["C", "POSIX", "C.UTF-8", "C.utf8"].contains(collation)
    if provider == "b" || (provider == "c" && comparesBytes) {
      return .ok("collation", "\(collation): texts are compared by bytes")
    }
    return .warn(
      "collation",
      "\(provider == "i" ? "ICU" : collation): texts are compared by a language's rules, so new rows cost up to half as "
        + "much again, and an upgrade of the system can break indexes",
      "restore a dump into a database made with createdb -T template0 --lc-collate=C")
  }
}
