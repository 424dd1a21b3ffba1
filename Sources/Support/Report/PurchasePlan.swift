import Customers
import Deliveries
import Foundation
import JSON
import Postgres
import Subscriptions

/// What a purchase costs and how it goes on, from `support_subscriptions`.
package struct PurchasePlan: Sendable {
  package var firstPurchaseDate: Date?
  package var price: Money?
  package var storefront: String?
  package var offer: String?
  /// The product to which it changes at the next renewal.
  package var pendingProductID: String?
  package var renewalPrice: Money?
  package var renewalOffer: String?
  /// `pending` or `accepted`.
  package var priceIncrease: String?
  /// Why it ended or will end.
  package var endReason: String?
  /// What was paid, by currency, minus refunds.
  package var totalPaid: [Money] = []
  /// When Apple last signed a fact about it.
  package var confirmedAt: Date?
  /// When access by it ends or ended, with Apple's billing grace and the app's own grace, as in the timeline's `access
  /// ended`.
  package var accessEndsAt: Date?
  /// The date of the old proof that told of it first; `nil` for none. See ``OldProofs``.
  package var oldProofSignedAt: Date?
  /// When the App Store answered about that proof; `nil` if it has not.
  package var oldProofAskedAt: Date?
  /// When the App Store answered that it does not know the purchase; `nil` if it knows it.
  package var oldProofUnknownAt: Date?
}

extension PurchasePlan {
  /// The plans of these purchases.
  static func select(_ originalTransactionIDs: [String]) -> Query {
    """
    SELECT original_transaction_id, first_purchase_date, price::text, currency, storefront, offer, pending_product_id,
      renewal_price::text, renewal_currency, renewal_offer, price_increase, end_reason, signed_at, access_ends_at,
      old_proof_signed_at, old_proof_asked_at, old_proof_unknown_at,
      ARRAY(SELECT key FROM jsonb_each_text(total_paid) ORDER BY key) AS paid_currencies,
      ARRAY(SELECT value FROM jsonb_each_text(total_paid) ORDER BY key) AS paid_amounts
    FROM support_subscriptions WHERE original_transaction_id = ANY(\(originalTransactionIDs))
    """
  }

  /// Decodes the rows of ``select(_:)``, by `originalTransactionID`.
  static func decode(_ rows: Rows) throws -> [String: PurchasePlan] {
    var plans: [String: PurchasePlan] = [:]
    for row in rows {
      let currencies: [String] = try row.decode("paid_currencies")
      let amounts: [String] = try row.decode("paid_amounts")
      plans[try row.decode("original_transaction_id")] = PurchasePlan(
        firstPurchaseDate: try row.decode("first_purchase_date"),
        price: Money(try row.decode("price"), try row.decode("currency")),
        storefront: try row.decode("storefront"), offer: try row.decode("offer"),
        pendingProductID: try row.decode("pending_product_id"),
        renewalPrice: Money(try row.decode("renewal_price"), try row.decode("renewal_currency")),
        renewalOffer: try row.decode("renewal_offer"), priceIncrease: try row.decode("price_increase"),
        endReason: try row.decode("end_reason"),
        totalPaid: zip(amounts, currencies).compactMap { Money($0, $1) },
        confirmedAt: try row.decode("signed_at"), accessEndsAt: try row.decode("access_ends_at"),
        oldProofSignedAt: try row.decode("old_proof_signed_at"),
        oldProofAskedAt: try row.decode("old_proof_asked_at"),
        oldProofUnknownAt: try row.decode("old_proof_unknown_at"))
    }
    return plans
  }
}

/// An amount in a currency, as a decimal text: a binary fraction could not be added up.
package struct Money: Sendable, Hashable, CustomStringConvertible {
  /// In the currency's unit, such as `4.99`.
  package var amount: String
  /// ISO 4217.
  package var currency: String

  /// - Returns: `nil` if either is unknown.
  init?(_ amount: String?, _ currency: String?) {
    guard let amount, let currency else { return nil }
    self.amount = amount
    self.currency = currency
  }

  package var description: String { "\(amount) \(currency)" }
}

extension Money: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("amount", amount)
      json.member("currency", currency)
    }
  }
}

/// What a report says of purchases beside their rows, by `originalTransactionID`.
struct PurchaseDetails {
  private(set) var plans: [String: PurchasePlan] = [:]
  private(set) var holders: [String: [ReportedHolder]] = [:]
  var refundRequests: [String: [ReportedRefundRequest]] = [:]
  var refundPreferences: [String: RefundAnswer.Preference] = [:]

  init(of originalTransactionIDs: [String], _ connection: PostgresConnection) async throws {
    guard !originalTransactionIDs.isEmpty else { return }
    let answers = try await connection.pipeline([
      PurchasePlan.select(originalTransactionIDs), HolderRows.select(originalTransactionIDs),
    ])
    plans = try PurchasePlan.decode(answers[0])
    for row in answers[1] {
      let (id, holder) = try HolderRows.decode(row)
      guard !holder.isBarred else { continue }
      holders[id, default: []].append(ReportedHolder(deviceID: holder.deviceID, since: holder.since))
    }
    holders = holders.filter { $0.value.count > 1 }
  }
}
