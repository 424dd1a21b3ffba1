import Postgres

extension Doctor {
  /// The most purchases that the message names.
  private static let maximumNamed = 5

  /// Reports purchases that several customers claim and none has proved. A renewal or refund reaches at most one of their
  /// rows.
  /// - Returns: `nil` if there is none.
  func contestedPurchases(_ pool: PostgresPool) async throws -> CheckResult? {
    let rows = try await pool.query(
      """
      WITH claims AS (
        SELECT coalesce(purchase_id, original_transaction_id) AS purchase, customer FROM adoptions
        WHERE outcome = 'claimed_twice'
        UNION
        SELECT coalesce(t.original_transaction_id, w.original_transaction_id), w.user_id::text
        FROM client_writes w LEFT JOIN transactions t ON t.transaction_id = w.original_transaction_id
        WHERE w.outcome = 'claimed_twice')
      SELECT purchase, array_agg(customer || CASE WHEN EXISTS (SELECT FROM subscriptions s
          WHERE s.original_transaction_id = purchase AND customer IN (s.user_id::text, s.device_id))
        THEN ' has it' ELSE '' END ORDER BY customer) AS customers, count(*) OVER () AS purchases
      FROM (
        SELECT purchase, customer FROM claims
        UNION
        SELECT s.original_transaction_id, coalesce(s.user_id::text, s.device_id)
        FROM subscriptions s JOIN claims c ON c.purchase = s.original_transaction_id
        WHERE s.owned_because = 'unproven_claim') AS claimants
      WHERE NOT EXISTS (SELECT FROM subscriptions s
        WHERE s.original_transaction_id = purchase AND (s.user_id IS NOT NULL OR s.device_id IS NOT NULL)
          AND s.owned_because IS DISTINCT FROM 'unproven_claim')
      GROUP BY purchase ORDER BY purchase LIMIT \(Self.maximumNamed)
      """)
    guard let first = rows.first else { return nil }
    let count = try first.decode("purchases", as: Int.self)
    var named = try rows.map { row in
      let customers = try row.decode("customers", as: [String].self)
      return "\(try row.decode("purchase", as: String.self)) (\(customers.joined(separator: ", ")))"
    }
    if count > named.count { named.append("and \(count - named.count) more") }
    return .warn(
      "contested purchases",
      "\(count) claimed by several customers and proved by none, so renewals reach at most one of their rows: "
        + named.joined(separator: "; "),
      "receiptd transfer \(try first.decode("purchase", as: String.self)) --to CUSTOMER --reason \"…\", for each"
    )
  }
}
