import Customers
import Foundation
import Ledger
import Postgres
import Subscriptions

/// The kinds of calls in the queue.
package enum StoreCallKind: String, Sendable, CaseIterable {
  /// Send Consumption Information.
  case consumption
  /// Set App Account Token.
  case accountToken = "account_token"
}

/// A call to put into the queue, in the commit of the fact that causes it.
struct NewStoreCall: Sendable {
  var kind: StoreCallKind
  /// What it is for; a second call for the same is not queued.
  var key: String
  var bundleID: String
  var environment: StoreEnvironment
  var originalTransactionID: String
  var transactionID: String
  var userID: UUID?
  var requestReason: String?
  var askedAt: Date
  var deadline: Date

  /// For how long the App Store is told an account token.
  private static let timeToTell: TimeInterval = 30 * 86_400
}

extension NewStoreCall {
  /// The call that follows from an entry; `nil` for none.
  init?(_ entry: LedgerEntry, _ receipt: LedgerReceipt) {
    guard let app = entry.app, !receipt.isDuplicate, !receipt.isContradiction,
      let id = entry.originalTransactionID
    else { return nil }
    if let request = entry.refundRequest, let notification = entry.notification {
      self.init(
        kind: .consumption, key: notification.uuid.uuidString.lowercased(), bundleID: app.bundleID,
        environment: request.environment, originalTransactionID: id, transactionID: request.transactionID,
        requestReason: request.reason, askedAt: request.askedAt,
        deadline: request.askedAt + RefundRequest.timeToAnswer)
    } else if let user = Self.firstProver(of: receipt, in: app),
      let current = receipt.subscription?.subscription.current
    {
      self.init(
        kind: .accountToken, key: id, bundleID: app.bundleID, environment: current.environment,
        originalTransactionID: id, transactionID: id, userID: user, askedAt: entry.instant,
        deadline: entry.instant + Self.timeToTell)
    } else {
      return nil
    }
  }

  /// The user to tell the App Store: the first owner of a purchase whose transactions have no `appAccountToken`. `nil`:
  /// none.
  private static func firstProver(of receipt: LedgerReceipt, in app: App) -> UUID? {
    guard app.tellsAccountToken, let stored = receipt.subscription, let owner = stored.owner,
      owner.reason == .firstClaim, receipt.previous?.owner != owner,
      stored.subscription.customerToken == nil, stored.decidedToken == nil,
      stored.subscription.current.ownership == "PURCHASED"
    else { return nil }
    return owner.customer.userID
  }
}

/// Statements on the table `store_calls`.
package enum StoreCallRows {
  static func insert(_ calls: [NewStoreCall], at instant: Date) -> Query {
    """
    INSERT INTO store_calls (kind, key, bundle_id, environment, original_transaction_id, transaction_id, user_id,
      request_reason, asked_at, deadline, next_attempt_at)
    SELECT *, \(instant)::timestamptz FROM unnest(
      \(calls.map(\.kind.rawValue))::text[], \(calls.map(\.key))::text[], \(calls.map(\.bundleID))::text[],
      \(calls.map(\.environment.rawValue))::text[], \(calls.map(\.originalTransactionID))::text[],
      \(calls.map(\.transactionID))::text[], \(calls.map(\.userID))::uuid[],
      \(calls.map(\.requestReason))::text[], \(calls.map(\.askedAt))::timestamptz[],
      \(calls.map(\.deadline))::timestamptz[])
    ON CONFLICT (kind, key) DO NOTHING
    """
  }
}
