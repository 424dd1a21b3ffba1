import AppStore
import Customers
import Foundation
import Postgres
import Subscriptions

/// The App Store's question about a refund, from a notification `CONSUMPTION_REQUEST`.
struct RefundRequest: Sendable {
  var transactionID: String
  var environment: StoreEnvironment
  /// The customer's reason, in Apple's words.
  var reason: String?
  var askedAt: Date

  /// Apple's limit for an answer.
  static let timeToAnswer: TimeInterval = 12 * 3_600
}

/// The kinds of calls in the queue.
enum StoreCallKind: String, Sendable, CaseIterable {
  /// Send Consumption Information.
  case consumption
  /// Set App Account Token.
  case accountToken = "account_token"
}

/// The end of a queued call; the values of the column `outcome`.
enum StoreCallOutcome: String, Sendable, CaseIterable {
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

  private init(
    kind: StoreCallKind, key: String, bundleID: String, environment: StoreEnvironment,
    originalTransactionID: String, transactionID: String, userID: UUID? = nil, requestReason: String? = nil,
    askedAt: Date, deadline: Date
  ) {
    self.kind = kind
    self.key = key
    self.bundleID = bundleID
    self.environment = environment
    self.originalTransactionID = originalTransactionID
    self.transactionID = transactionID
    self.userID = userID
    self.requestReason = requestReason
    self.askedAt = askedAt
    self.deadline = deadline
  }

  /// The user to tell the App Store: the first owner of a purchase whose transactions have no `appAccountToken`. `nil`: none.
  private static func firstProver(of receipt: LedgerReceipt, in app: App) -> UUID? {
    guard app.tellsAccountToken, let stored = receipt.subscription, let owner = stored.owner,
      owner.reason == .firstClaim, receipt.previous?.owner != owner,
      stored.subscription.customerToken == nil, stored.decidedToken == nil,
      stored.subscription.current.ownership == "PURCHASED"
    else { return nil }
    return owner.customer.userID
  }
}

/// A queued call that is due.
struct StoreCall: Sendable {
  var id: Int64
  var kind: StoreCallKind
  var bundleID: String
  var environment: AppStore.Environment
  var originalTransactionID: String
  var transactionID: String
  var userID: UUID?
  var askedAt: Date
  var deadline: Date
  /// The number of attempts that failed.
  var attempts: Int
  /// What an earlier attempt sent that has no known end: the App Store may have it.
  var body: JSONText?
  /// The person whose preference the body follows.
  var preferredBy: String?

  /// Whether an earlier attempt has no known end.
  var isUncertain: Bool { body != nil }

  init?(_ row: Row) throws {
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

/// Statements on the table `store_calls`.
enum StoreCallRows {
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

  /// Takes due calls and leases them: no other server takes them before the lease ends. Of several calls of one kind about
  /// one transaction only the first is taken.
  static func claimDue(at instant: Date, until end: Date, limit: Int) -> Query {
    """
    UPDATE store_calls SET next_attempt_at = \(end)
    WHERE id IN (
      SELECT id FROM store_calls AS call
      WHERE settled_at IS NULL AND next_attempt_at <= \(instant)
        AND NOT EXISTS (
          SELECT FROM store_calls earlier
          WHERE earlier.original_transaction_id = call.original_transaction_id AND earlier.settled_at IS NULL
            AND earlier.kind = call.kind AND earlier.transaction_id = call.transaction_id
            AND earlier.id < call.id)
      ORDER BY next_attempt_at LIMIT \(limit) FOR UPDATE SKIP LOCKED)
    RETURNING \(unescaped: columns)
    """
  }

  /// The columns of ``StoreCall/init(_:)``.
  static let columns: StaticString = """
    id, kind, bundle_id, environment, original_transaction_id, transaction_id, user_id, asked_at, deadline, attempts,
    body, preferred_by
    """

  /// The column `last_error` between the beginning and the end of an attempt, and in the record of a call that ends so.
  static let underWay = "an attempt has begun, and its end is not known"

  /// Writes what is about to be sent; no row if the call has ended. While the row has a body, the App Store may have it.
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

  /// Writes when to look at a call again that waits. One that was woken since this look began stays due.
  static func pause(_ call: StoreCall, from instant: Date, until next: Date, because reason: String) -> Query
  {
    """
    UPDATE store_calls SET last_error = \(reason),
      next_attempt_at = CASE WHEN next_attempt_at <= \(instant) THEN next_attempt_at ELSE least(\(next), deadline) END
    WHERE id = \(call.id) AND settled_at IS NULL
    """
  }

  /// Writes when to make a call again that failed, and why.
  /// - Parameter keepsBody: whether the App Store may have the body; otherwise the next attempt decides anew.
  static func postpone(
    _ call: StoreCall, until next: Date, because reason: String, keepsBody: Bool
  ) -> Query {
    """
    UPDATE store_calls SET next_attempt_at = least(\(next), deadline), last_error = \(reason),
      attempts = attempts + 1, body = CASE WHEN \(keepsBody) THEN body END,
      preferred_by = CASE WHEN \(keepsBody) THEN preferred_by END
    WHERE id = \(call.id) AND settled_at IS NULL
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

  /// Ends a call and writes its record; no record if the call has ended already, because of an erasure or another server.
  /// - Parameters:
  ///   - settle: ``settle(_:_:because:at:)``.
  ///   - record: an `INSERT` that ends in its `FROM` clause.
  static func settle(_ settle: Query, recording record: Query) -> Query {
    """
    WITH settled AS (\(settle) RETURNING id)
    \(record) WHERE EXISTS (SELECT FROM settled)
    """
  }

  /// Settles the other open requests of a transaction whose answer was sent: the App Store repeats its question under new
  /// UUIDs.
  static func settleRepetitions(of call: StoreCall, at instant: Date) -> Query {
    """
    UPDATE store_calls SET settled_at = \(instant), outcome = \(StoreCallOutcome.repeated.rawValue)
    WHERE original_transaction_id = \(call.originalTransactionID) AND settled_at IS NULL AND id <> \(call.id)
      AND kind = \(call.kind.rawValue) AND transaction_id = \(call.transactionID)
    """
  }

  /// The open questions about refunds of these purchases, and whether the answer may have been sent.
  static func openRefundRequests(of purchases: [String]) -> Query {
    """
    SELECT deadline, body IS NOT NULL AS is_fixed FROM store_calls
    WHERE original_transaction_id = ANY(\(purchases)) AND settled_at IS NULL
      AND kind = \(StoreCallKind.consumption.rawValue)
    """
  }
}

extension AppStoreServerError {
  /// Whether the App Store may have carried out a call that changes something, though no answer says so.
  ///
  /// A rejection with a status below 500 was not carried out. An internal error may follow the change, and a proxy may lose the
  /// answer.
  var mayBeCarriedOut: Bool {
    switch self {
    case .rejected(let rejection): rejection.status >= 500
    case .transport, .undecodableAnswer: true
    case .unauthorizedWithoutJSON, .transactionNotFound, .invalidArgument, .tokenNotSigned, .overloaded,
      .circuitOpen:
      false
    }
  }

  /// Whether the App Store will never do what was asked.
  var isRefusal: Bool {
    if case .rejected(let rejection) = self, rejection.status == 403, rejection.code != nil { return true }
    return retryDecision == .skip
  }

  /// The reason of a refusal for support.
  var sentence: String {
    switch code {
    case .subscriptionExtensionIneligible?:
      "the App Store extends paid, active subscriptions only: no free period, no billing retry, not after the end"
    case .subscriptionMaxExtension?: "it was extended twice within 365 days, Apple's limit"
    case .familySharedSubscriptionExtensionIneligible?: "it is a family member's"
    case .originalTransactionIdNotFound?, .transactionIdNotFound?: "the App Store does not know it"
    default: "the App Store refuses it: \(reason)"
    }
  }
}
