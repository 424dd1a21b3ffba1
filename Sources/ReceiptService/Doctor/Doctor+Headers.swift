import Postgres

extension Doctor {
  /// Whether the headers that notifications refer to are there, and stay. No foreign key says so
  /// (`20260206_know_headers_by_content.sql`).
  func headers(_ pool: PostgresPool) async throws -> Finding {
    let row = try await pool.query(
      """
      SELECT EXISTS (
          SELECT FROM pg_trigger WHERE tgrelid = 'jws_headers'::regclass AND tgname = 'receiptd_keep_headers'
            AND tgenabled IN ('O', 'A')),
        (SELECT count(*) FROM notifications
         CROSS JOIN LATERAL unnest(ARRAY[envelope_header, transaction_header, renewal_header]) AS used (id)
         WHERE received_at > now() - interval '7 days' AND used.id IS NOT NULL
           AND NOT EXISTS (SELECT FROM jws_headers WHERE jws_headers.id = used.id))
      """)[0]
    let missing = try row.decode(1, as: Int.self)
    if missing > 0 {
      return .fail(
        "headers", "of \(missing) signed parts of the last 7 days' notifications the header is missing",
        "restore jws_headers from a backup: without them these notifications cannot be processed once more")
    }
    if try !row.decode(0, as: Bool.self) {
      return .fail(
        "headers", "may be changed and deleted",
        "ALTER TABLE jws_headers ENABLE TRIGGER receiptd_keep_headers")
    }
    return .ok("headers", "are there, and stay")
  }
}
