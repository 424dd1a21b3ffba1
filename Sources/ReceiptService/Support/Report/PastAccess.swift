import Foundation
import Postgres
import Subscriptions

/// What a customer without any record of access had before: a purchase that another customer has now, or a grant.
struct PastAccess: Sendable {
  var at: Date
  var sentence: String

  /// The last purchase of an app that went from this customer to another one.
  static func lastMove(from customer: Customer, bundleID: String) -> Query {
    """
    SELECT at, original_transaction_id, to_customer, by, reason FROM support_actions
    WHERE from_customer = \(customer.id) AND customer_kind = \(customer.kindWord) AND bundle_id = \(bundleID)
      AND original_transaction_id IS NOT NULL AND to_customer <> from_customer
    ORDER BY at DESC, id DESC LIMIT 1
    """
  }

  /// Decodes a row of ``lastMove(from:bundleID:)``.
  init(move row: Row) throws {
    at = try row.decode("at")
    let (purchase, owner): (String, String) = (
      try row.decode("original_transaction_id"), try row.decode("to_customer")
    )
    let (author, reason): (String, String) = (try row.decode("by"), try row.decode("reason"))
    sentence = "the purchase \(purchase) moved to \(owner) at \(at.rfc3339) (\(author): \(reason))"
  }

  /// - Returns: `nil` for a grant that has not ended.
  init?(_ stored: StoredGrant, at instant: Date) {
    let name = "the grant \(stored.grant.id.uuidString.lowercased())"
    if let revokedAt = stored.revokedAt {
      at = revokedAt
      sentence = "\(name) was revoked at \(revokedAt.rfc3339) by \(stored.revokedBy ?? "?")"
    } else if let end = stored.grant.endsAt, end <= instant {
      at = end
      sentence = "\(name) ended at \(end.rfc3339)"
    } else {
      return nil
    }
  }
}
