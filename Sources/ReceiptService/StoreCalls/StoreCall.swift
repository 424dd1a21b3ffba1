import AppStore
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
