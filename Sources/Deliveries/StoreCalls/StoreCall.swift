import AppStore
import Customers
import Foundation
import Ledger
import Postgres
import Subscriptions
import Work

/// The end of a queued call; the values of the column `outcome`.
package enum StoreCallOutcome: String, Sendable, CaseIterable {
  /// The App Store took it.
  case sent
  /// The App Store refused it for good.
  case refused
  /// It was not sent before its deadline.
  case late
  /// The customer has not consented.
  case noConsent = "no_consent"
  /// The app's policy is not to answer.
  case noAnswer = "no_answer"
  /// It has become pointless.
  case notNeeded = "not_needed"
  /// The answer to another request of the same transaction was sent.
  case repeated
  /// A server began to send it and did not learn the end: the App Store may have it.
  case unknown

  /// What a call that ended so counts as.
  var result: WorkOutcome.Result {
    switch self {
    case .sent, .noConsent, .noAnswer, .notNeeded, .repeated: .done
    case .refused, .late, .unknown: .givenUp
    }
  }
}

/// A queued call that is due.
package struct StoreCall: Sendable {
  package var id: Int64
  package var kind: StoreCallKind
  package var bundleID: String
  package var environment: AppStore.Environment
  package var originalTransactionID: String
  package var transactionID: String
  package var userID: UUID?
  package var askedAt: Date
  package var deadline: Date
  /// The number of attempts that failed.
  package var attempts: Int
  /// What an earlier attempt sent that has no known end: the App Store may have it.
  package var body: JSONText?
  /// The person whose preference the body follows.
  package var preferredBy: String?

  /// Whether an earlier attempt has no known end.
  package var isUncertain: Bool { body != nil }

  package init?(_ row: Row) throws {
    guard let kind = StoreCallKind(rawValue: try row.decode("kind")) else { return nil }
    self.kind = kind
    id = try row.decode("id")
    bundleID = try row.decode("bundle_id")
    environment = AppStore.Environment(rawValue: try row.decode("environment"))
    originalTransactionID = try row.decode("original_transaction_id")
    transactionID = try row.decode("transaction_id")
    userID = try row.decode("user_id")
    askedAt = try row.decode("asked_at")
    deadline = try row.decode("deadline")
    attempts = try row.decode("attempts")
    body = try row.decode("body")
    preferredBy = try row.decode("preferred_by")
  }
}

/// The statements of the queue.
extension StoreCallRows {
  /// The queue of calls.
  static let table = WorkTable("store_calls", key: "id", isOpen: "settled_at IS NULL", deadline: "deadline")

  /// A refused call is decided anew; one whose end is not known is repeated unchanged.
  package static let requeuable = RequeuableQueue(
    "store_calls",
    only:
      "a call that waits, or that the App Store refused or has no known end, before its deadline, and whose question no other call has answered"
  ) { key, instant in
    guard let id = Int64(key: key) else { return nil }
    let opened: Query = """
      , settled_at = NULL, outcome = NULL, body = CASE WHEN outcome = 'refused' THEN NULL ELSE body END,
        preferred_by = CASE WHEN outcome = 'refused' THEN NULL ELSE preferred_by END
      """
    return """
      \(table.requeue(id, at: instant, setting: opened))
        AND (settled_at IS NULL OR outcome IN (\(StoreCallOutcome.refused.rawValue), \(StoreCallOutcome.unknown.rawValue)))
        AND (outcome IS DISTINCT FROM \(StoreCallOutcome.unknown.rawValue) OR kind <> 'consumption' OR body IS NOT NULL)
        AND deadline > \(instant)
        AND NOT EXISTS (
          SELECT FROM store_calls other
          WHERE other.original_transaction_id = store_calls.original_transaction_id AND other.kind = store_calls.kind
            AND other.transaction_id = store_calls.transaction_id AND other.outcome = \(StoreCallOutcome.sent.rawValue))
      RETURNING bundle_id, original_transaction_id
      """
  }

  /// Leases due calls. Of several calls of one kind about one transaction only the first is due.
  static func claimDue(_ lease: WorkLease, limit: Int) -> Query {
    table.claim(
      lease,
      where: """
        NOT EXISTS (
          SELECT FROM store_calls earlier
          WHERE earlier.original_transaction_id = store_calls.original_transaction_id AND earlier.settled_at IS NULL
            AND earlier.kind = store_calls.kind AND earlier.transaction_id = store_calls.transaction_id
            AND earlier.id < store_calls.id)
        """, limit: "\(limit)", returning: "\(unescaped: columns)")
  }

  /// The columns of ``StoreCall/init(_:)``.
  static let columns: StaticString = """
    id, kind, bundle_id, environment, original_transaction_id, transaction_id, user_id, asked_at, deadline, attempts,
    body, preferred_by
    """

  /// The column `last_error` between the beginning and the end of an attempt, and in the record of a call that ends so.
  package static let underWay = "an attempt has begun, and its end is not known"

  /// Writes what is about to be sent; no row if the call has ended. While the row has a body, the App Store may have
  /// it.
  static func record(_ body: JSONText, preferredBy person: String?, of id: Int64) -> Query {
    """
    UPDATE store_calls SET body = \(body), preferred_by = \(person)::text, last_error = \(underWay)
    WHERE id = \(id) AND settled_at IS NULL
    """
  }

  /// Makes the open questions about refunds of a customer's purchases due, after the customer has consented.
  static func wake(_ customer: Customer, of bundleID: String, at instant: Date) -> Query {
    """
    UPDATE store_calls SET next_attempt_at = \(instant)
    WHERE settled_at IS NULL AND kind = \(StoreCallKind.consumption.rawValue) AND bundle_id = \(bundleID)
      AND next_attempt_at > \(instant) AND body IS NULL AND original_transaction_id IN (
        SELECT original_transaction_id FROM subscriptions WHERE user_id = \(customer.userID)
        UNION SELECT original_transaction_id FROM subscriptions
        WHERE device_id = \(customer.deviceID) AND user_id IS NULL
        UNION SELECT original_transaction_id FROM purchase_devices
        WHERE device_id = \(customer.deviceID) AND NOT is_barred)
    """
  }

  /// Ends a call; no row if it has ended already.
  static func settle(
    _ call: StoreCall, _ outcome: StoreCallOutcome, because reason: String?, at instant: Date
  ) -> Query {
    """
    UPDATE store_calls SET settled_at = \(instant), outcome = \(outcome.rawValue), last_error = \(reason)::text
    WHERE id = \(call.id) AND settled_at IS NULL
    """
  }

  /// Ends a call and writes its record; no record if the call has ended already, because of an erasure or another
  /// server.
  /// - Parameters:
  ///   - settle: ``settle(_:_:because:at:)``.
  ///   - record: an `INSERT` that ends in its `FROM` clause.
  static func settle(_ settle: Query, recording record: Query) -> Query {
    """
    WITH settled AS (\(settle) RETURNING id)
    \(record) WHERE EXISTS (SELECT FROM settled)
    """
  }

  /// Settles the other open requests of a transaction whose answer was sent: the App Store repeats its question under
  /// new UUIDs.
  static func settleRepetitions(of call: StoreCall, at instant: Date) -> Query {
    """
    UPDATE store_calls SET settled_at = \(instant), outcome = \(StoreCallOutcome.repeated.rawValue)
    WHERE original_transaction_id = \(call.originalTransactionID) AND settled_at IS NULL AND id <> \(call.id)
      AND kind = \(call.kind.rawValue) AND transaction_id = \(call.transactionID)
    """
  }

  /// The open questions about refunds of these purchases, and whether the answer may have been sent.
  package static func openRefundRequests(of purchases: [String]) -> Query {
    """
    SELECT deadline, body IS NOT NULL AS is_fixed FROM store_calls
    WHERE original_transaction_id = ANY(\(purchases)) AND settled_at IS NULL
      AND kind = \(StoreCallKind.consumption.rawValue)
    """
  }
}
