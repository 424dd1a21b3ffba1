import Postgres

extension Doctor {
  /// Checks that the headers of recent notifications exist and cannot be deleted. There is no foreign key; see the table
  /// `jws_headers` in `migrations`.
  func headers(_ pool: PostgresPool) async throws -> CheckResult {
    let row = try await pool.query(
      """
      SELECT EXISTS (
          SELECT FROM pg_trigger WHERE tgrelid = 'jws_headers'::regclass AND tgname = 'receiptd_keep_headers'
            AND tgenabled IN ('O', 'A')) AS is_protected,
        (SELECT count(*) FROM notifications
         CROSS JOIN LATERAL unnest(ARRAY[envelope_header, transaction_header, renewal_header]) AS used (id)
         WHERE received_at > now() - interval '7 days' AND used.id IS NOT NULL
           AND NOT EXISTS (SELECT FROM jws_headers WHERE jws_headers.id = used.id)) AS missing
      """)[0]
    let missing = try row.decode("missing", as: Int.self)
    if missing > 0 {
      return .fail(
        "headers", "the headers of \(missing) signed parts of the last 7 days' notifications are missing",
        "restore jws_headers from a backup; these notifications cannot be replayed without them")
    }
    if try !row.decode("is_protected", as: Bool.self) {
      return .fail(
        "headers", "can be changed and deleted",
        "ALTER TABLE jws_headers ENABLE TRIGGER receiptd_keep_headers")
    }
    return .ok("headers", "are complete and protected")
  }
}
