import AppStore
import Customers
import Foundation
import Ledger
import Postgres
import Subscriptions

/// What is known about a refund request, and the rules for its answer.
///
/// Apple's rules: nothing is sent without the customer's consent, nor after 12 hours; the consumed share of an
/// auto-renewable subscription must not be sent, because the App Store computes it; of a purchase that was not
/// delivered it is 0.
package struct RefundAnswer: Sendable {
  package var policy: RefundAnswers
  /// Support's preference for this customer or purchase; `nil` for none.
  package var preference: Preference?
  package var transaction: TransactionFact
  /// For how long a product without an expiry gives access; `nil` for no end.
  var accessDays: Int?
  /// Whether the purchase gives what was bought.
  var isDelivered: Bool
  /// Whether the app has a free tier or a trial.
  var hasSample: Bool
  package var hasConsent: Bool
  package var askedAt: Date
  package var deadline: Date

  /// Support's preference about a refund.
  package struct Preference: Sendable, Hashable {
    package var choice: RefundChoice
    package var by: String
    package var reason: String
  }

  /// What to do about a request.
  package enum Decision: Sendable, Hashable {
    case send(ConsumptionRequest)
    /// Nothing can be sent now, for this reason.
    case wait(String)
    case settle(StoreCallOutcome, String)
  }

  package func decision(at instant: Date) -> Decision {
    if transaction.revocationDate != nil {
      return .settle(.notNeeded, "the App Store has refunded the transaction")
    }
    guard transaction.ownership == "PURCHASED" else {
      return .settle(.notNeeded, "a family member did not pay for the purchase")
    }
    let isOver = instant >= deadline
    guard policy != .none || preference != nil else {
      let reason = "the app's refundAnswers is none"
      return isOver ? .settle(.noAnswer, reason) : .wait(reason)
    }
    guard hasConsent else {
      let reason = "the customer has not consented"
      return isOver ? .settle(.noConsent, reason) : .wait(reason)
    }
    return isOver ? .settle(.late, "12 hours have passed") : .send(request)
  }

  /// The body of the answer.
  package var request: ConsumptionRequest {
    var request = ConsumptionRequest(
      customerConsented: true, deliveryStatus: isDelivered ? .delivered : .undeliveredOther,
      sampleContentProvided: hasSample)
    if transaction.kind != .autoRenewable { request.consumptionPercentage = consumptionPercentage }
    request.refundPreference =
      switch preference?.choice ?? RefundChoice(policy) {
      case .grant: .grantFull
      case .decline: .decline
      case .none: nil
      }
    return request
  }

  /// The consumed part when the App Store asked, in thousandths of a percent; `nil` for a purchase without an end.
  private var consumptionPercentage: Int32? {
    guard isDelivered else { return 0 }
    return transaction.consumedShare(at: askedAt, accessDays: accessDays).map {
      Int32(($0 * 100_000).rounded())
    }
  }

  /// A sent body in words, for support.
  package func sentence(of body: ConsumptionRequest) -> String {
    let preference =
      switch body.refundPreference {
      case .grantFull?: "prefers the refund"
      case .decline?: "prefers no refund"
      default: "has no preference"
      }
    let share = transaction.consumedShare(at: askedAt, accessDays: accessDays).map {
      ", \(Int(($0 * 100).rounded())) % of the time had passed"
    }
    return "\(preference); \(body.deliveryStatus == .delivered ? "delivered" : "not delivered")\(share ?? "")"
  }
}

/// A preference about a refund.
package enum RefundChoice: String, Sendable, Codable, CaseIterable {
  /// Grant it in full.
  case grant
  /// Decline it.
  case decline
  /// None: facts only.
  case none

  init(_ policy: RefundAnswers) {
    self =
      switch policy {
      case .preferGrant: .grant
      case .preferDecline: .decline
      case .none, .facts: .none
      }
  }
}

/// The queries for what an answer about a refund needs.
package enum RefundAnswerRows {
  /// The action of ``SupportDesk/preferRefund(_:for:bundleID:by:)``, which is also the record of the preference.
  package static let preferenceAction = "refund-preference"

  static func transaction(_ id: String) -> Query {
    TransactionRows.select([], or: [id])
  }

  /// The owner of a purchase, whether it counts, and the customer's consent.
  ///
  /// The devices that share a purchase belong to one Apple Account, so each of them that showed possession may consent,
  /// and a refusal of one of them counts. An owner that only named a transaction's id may be a stranger.
  package static func customer(of originalTransactionID: String) -> Query {
    """
    SELECT s.user_id, s.device_id, s.is_counted, (
      SELECT bool_and(c.is_given) FROM consents c
      WHERE c.bundle_id = s.bundle_id AND c.customer IN (
        SELECT coalesce(s.user_id::text, s.device_id) WHERE s.owned_because IS DISTINCT FROM 'unproven_claim'
        UNION ALL SELECT d.device_id FROM purchase_devices d
        WHERE d.original_transaction_id = s.original_transaction_id AND d.is_proven AND NOT d.is_barred
          AND s.user_id IS NULL)) AS is_given
    FROM subscriptions s WHERE s.original_transaction_id = \(originalTransactionID) AND s.bundle_id IS NOT NULL
    """
  }

  /// Support's latest preference for a purchase, or else for its owner or a device that shares it. An erased preference
  /// has no details.
  ///
  /// One index scan of `support_actions` for the purchase and one for each customer: an OR over both columns reads the
  /// whole table.
  package static func preference(of originalTransactionID: String) -> Query {
    """
    WITH purchase AS (
      SELECT bundle_id, original_transaction_id, coalesce(user_id::text, device_id) AS owner,
        user_id IS NULL AS is_shared, owned_because IS DISTINCT FROM 'unproven_claim' AS is_proven
      FROM subscriptions WHERE original_transaction_id = \(originalTransactionID)
    ), named AS (
      SELECT a.* FROM purchase JOIN support_actions a USING (original_transaction_id)
      UNION ALL
      SELECT a.* FROM (
        SELECT owner AS customer FROM purchase WHERE is_proven
        UNION ALL
        SELECT d.device_id FROM purchase JOIN purchase_devices d USING (original_transaction_id)
        WHERE purchase.is_shared AND d.is_proven AND NOT d.is_barred) AS customers
      JOIN support_actions a ON a.to_customer = customers.customer
    )
    SELECT named.details ->> 'prefer' AS prefer, named.by, named.reason FROM purchase JOIN named USING (bundle_id)
    WHERE named.action = \(preferenceAction) AND named.details ? 'prefer'
    ORDER BY named.original_transaction_id IS NULL, named.id DESC LIMIT 1
    """
  }

  /// The questions about refunds of these purchases: those that wait, then the latest of the others.
  package static func requests(of purchases: [String], limit: Int) -> Query {
    """
    SELECT \(unescaped: StoreCallRows.columns), request_reason, last_error, settled_at, outcome FROM store_calls
    WHERE original_transaction_id = ANY(\(purchases)) AND kind = \(StoreCallKind.consumption.rawValue)
    ORDER BY settled_at IS NOT NULL, asked_at DESC, id DESC LIMIT \(limit)
    """
  }

  package static func decodePreference(_ rows: Rows) throws -> RefundAnswer.Preference? {
    guard let row = rows.first,
      let choice = try row.decode("prefer", as: String?.self).flatMap(RefundChoice.init(rawValue:))
    else { return nil }
    return RefundAnswer.Preference(
      choice: choice, by: try row.decode("by"), reason: try row.decode("reason"))
  }
}

extension RefundAnswer {
  /// What is known about a request now.
  /// - Returns: `nil` if the transaction is not stored.
  package init?(to call: StoreCall, of app: App, _ connection: PostgresConnection) async throws {
    let answers = try await connection.pipeline([
      RefundAnswerRows.transaction(call.transactionID),
      RefundAnswerRows.customer(of: call.originalTransactionID),
      RefundAnswerRows.preference(of: call.originalTransactionID),
    ])
    guard let row = answers[0].first else { return nil }
    let transaction = try TransactionRows.decode(row)
    let customer = answers[1].first
    self.init(
      policy: app.refundAnswers, preference: try RefundAnswerRows.decodePreference(answers[2]),
      transaction: transaction, accessDays: app.product(named: transaction.productID)?.accessDays,
      isDelivered: try customer?.decode("is_counted", as: Bool.self) ?? false,
      hasSample: app.trial != nil || !app.free.ordered.isEmpty,
      hasConsent: try customer?.decode("is_given", as: Bool?.self) ?? false,
      askedAt: call.askedAt, deadline: call.deadline)
  }
}
