import AppStore
import FoundationEssentials

/// What a command led to, signed.
public struct SignedOutcome: Sendable {
  /// The transaction that it is about.
  public let transaction: TransactionInfo
  /// The transaction as JWS.
  public let signedTransaction: String
  /// What is to come, for a subscription.
  public let renewalInfo: RenewalInfo?
  /// The renewal info as JWS.
  public let signedRenewalInfo: String?
  /// The notification, which carries the two.
  public let notification: SignedNotification

  /// The id of the transaction.
  public var transactionID: String { transaction.transactionId }
  /// The id of the purchase that it belongs to.
  public var originalTransactionID: String { transaction.originalTransactionId }

  init(_ outcome: StoreOutcome, by signer: PayloadSigner) throws {
    transaction = outcome.transaction
    signedTransaction = try signer.sign(outcome.transaction)
    renewalInfo = outcome.renewalInfo
    signedRenewalInfo = try outcome.renewalInfo.map(signer.sign)
    notification = try SignedNotification(
      outcome.notification, signedTransaction: signedTransaction, signedRenewalInfo: signedRenewalInfo,
      by: signer)
  }
}

/// A notification as it is sent.
public struct SignedNotification: Sendable {
  /// What it says, before signing.
  public let content: StoreNotification
  /// The JWS: what stands in `{"signedPayload": "…"}`.
  public let signedPayload: String
  /// How often and how it was sent.
  public internal(set) var attempts: [SendAttempt] = []

  /// `notificationUUID`.
  public var uuid: String { content.uuid }

  init(_ content: StoreNotification, by signer: PayloadSigner) throws {
    try self.init(
      content, signedTransaction: content.transaction.map(signer.sign),
      signedRenewalInfo: content.renewalInfo.map(signer.sign), by: signer)
  }

  init(
    _ content: StoreNotification, signedTransaction: String?, signedRenewalInfo: String?,
    by signer: PayloadSigner
  ) throws {
    var data = NotificationData(environment: content.environment, bundleId: content.bundleID)
    // Apple leaves the number out in the sandbox.
    if content.environment == .production { data.appAppleId = content.appAppleID }
    data.bundleVersion = content.bundleVersion
    data.signedTransactionInfo = signedTransaction
    data.signedRenewalInfo = signedRenewalInfo
    data.status = content.status
    data.consumptionRequestReason = content.consumptionRequestReason

    var payload = NotificationPayload(
      notificationType: content.type, notificationUUID: content.uuid, signedDate: content.signedDate)
    payload.subtype = content.subtype
    payload.version = "2.0"
    payload.data = data
    self.content = content
    signedPayload = try signer.sign(payload)
  }
}

/// The notifications of a store, found by their UUID.
struct NotificationLog: Sendable {
  private(set) var all: [SignedNotification] = []
  private var positions: [String: Int] = [:]

  subscript(uuid: String) -> SignedNotification? { positions[uuid].map { all[$0] } }

  mutating func append(_ notification: SignedNotification) {
    positions[notification.uuid] = all.count
    all.append(notification)
  }

  mutating func append(_ attempt: SendAttempt, to uuid: String) {
    guard let position = positions[uuid] else { return }
    all[position].attempts.append(attempt)
  }
}
