import Foundation
import Postgres
import Subscriptions

/// Statements on the table `consents`.
enum ConsentRows {
  /// Writes a customer's word; a repeated one keeps its time.
  static func write(
    _ isGiven: Bool, of customer: Customer, bundleID: String, at instant: Date
  ) -> Query {
    """
    INSERT INTO consents AS known (bundle_id, customer, is_given, changed_at, given_at, withdrawn_at)
    VALUES (\(bundleID), \(customer.id), \(isGiven), \(instant),
      CASE WHEN \(isGiven) THEN \(instant)::timestamptz END, CASE WHEN NOT \(isGiven) THEN \(instant)::timestamptz END)
    ON CONFLICT (bundle_id, customer) DO UPDATE SET is_given = excluded.is_given,
      changed_at = CASE WHEN known.is_given = excluded.is_given THEN known.changed_at ELSE excluded.changed_at END,
      given_at = CASE WHEN excluded.is_given AND NOT known.is_given THEN excluded.changed_at ELSE known.given_at END,
      withdrawn_at = CASE WHEN known.is_given AND NOT excluded.is_given THEN excluded.changed_at
        ELSE known.withdrawn_at END
    RETURNING changed_at
    """
  }
}
