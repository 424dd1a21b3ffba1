import AppStore
import Foundation

/// A signed notification with its delivery attempts.
public struct SignedNotification: Sendable {
  /// The content before signing.
  public let content: StoreNotification
  /// The JWS for `{"signedPayload": "…"}`.
  public let signedPayload: String
  /// The delivery attempts.
  public internal(set) var attempts: [SendAttempt] = []
  /// The time of the next attempt; nil if there is none.
  public internal(set) var nextAttempt: Date?

  /// `notificationUUID`.
  public var uuid: String { content.uuid }

  /// Whether an attempt succeeded.
  public var isDelivered: Bool { attempts.contains { $0.outcome.isSuccess } }

  init(_ content: StoreNotification, by signer: PayloadSigner) throws {
    try self.init(
      content, signedTransaction: content.transaction.map(signer.sign),
      signedRenewalInfo: content.renewalInfo.map(signer.sign), by: signer)
  }

  init(
    _ content: StoreNotification, signedTransaction: String?, signedRenewalInfo: String?,
    by signer: PayloadSigner
  ) throws {
    var payload = NotificationPayload(
      notificationType: content.type, notificationUUID: content.uuid, signedDate: content.signedDate)
    payload.subtype = content.subtype
    payload.version = "2.0"
    // Exactly one of the four, as at Apple.
    if let summary = content.summary {
      payload.summary = summary
    } else if let token = content.externalPurchaseToken {
      payload.externalPurchaseToken = token
    } else if let appTransaction = content.appTransaction {
      payload.appData = content.appData(signed: try signer.sign(appTransaction))
    } else {
      payload.data = content.data(
        signedTransaction: signedTransaction, signedRenewalInfo: signedRenewalInfo)
    }
    self.content = content
    signedPayload = try signer.sign(payload)
  }
}

extension SignedNotification {
  /// The hours between attempts. The App Store gives up after the sixth attempt.
  private static let retryHours: [Double] = [1, 12, 24, 48, 72]

  /// The time of the attempt after the latest one; nil if there is none. The sandbox never retries, and a 400 is final.
  func retryDate(in timeScale: TimeScale) -> Date? {
    guard let latest = attempts.last, !isDelivered, latest.outcome.status != 400,
      content.environment == .production, attempts.count <= Self.retryHours.count
    else { return nil }
    return timeScale.date(latest.attemptDate, addingHours: Self.retryHours[attempts.count - 1])
  }
}

extension SignedNotification: Encodable {
  private enum Key: CodingKey {
    case uuid, type, subtype, environment, originalTransactionID, signedPayload, attempts, nextAttempt
  }

  /// Encodes the answer of the control API.
  public func encode(to encoder: any Encoder) throws {
    var answer = encoder.container(keyedBy: Key.self)
    try answer.encode(uuid, forKey: .uuid)
    try answer.encode(content.type, forKey: .type)
    try answer.encodeIfPresent(content.subtype, forKey: .subtype)
    try answer.encode(content.environment, forKey: .environment)
    try answer.encodeIfPresent(
      content.transaction?.originalTransactionId, forKey: .originalTransactionID)
    try answer.encode(signedPayload, forKey: .signedPayload)
    try answer.encode(attempts, forKey: .attempts)
    try answer.encodeIfPresent(nextAttempt, forKey: .nextAttempt)
  }
}

extension StoreNotification {
  fileprivate func data(signedTransaction: String?, signedRenewalInfo: String?) -> NotificationData {
    var data = NotificationData(environment: environment, bundleId: bundleID)
    // Apple omits the number in the sandbox.
    if environment == .production { data.appAppleId = appAppleID }
    data.bundleVersion = bundleVersion
    data.signedTransactionInfo = signedTransaction
    data.signedRenewalInfo = signedRenewalInfo
    data.status = status
    data.consumptionRequestReason = consumptionRequestReason
    return data
  }

  fileprivate func appData(signed: String) -> NotificationAppData {
    var data = NotificationAppData(environment: environment, bundleId: bundleID)
    if environment == .production { data.appAppleId = appAppleID }
    data.signedAppTransactionInfo = signed
    return data
  }
}

/// The signed result of a command.
public struct SignedOutcome: Sendable {
  /// The transaction.
  public let transaction: TransactionInfo
  /// The transaction as JWS.
  public let signedTransaction: String
  /// The renewal info of a subscription.
  public let renewalInfo: RenewalInfo?
  /// The renewal info as JWS.
  public let signedRenewalInfo: String?
  /// The notification with both payloads.
  public internal(set) var notification: SignedNotification
  /// The further notifications, in order.
  public internal(set) var others: [SignedNotification]

  /// The id of the transaction.
  public var transactionID: String { transaction.transactionId }
  /// The order id of the customer's receipt e-mail; nil for a family-shared purchase.
  public var orderID: String? {
    transaction.inAppOwnershipType == .familyShared
      ? nil : OrderID(transactionID: transaction.transactionId).text
  }
  /// The original transaction id.
  public var originalTransactionID: String { transaction.originalTransactionId }

  init(_ outcome: StoreOutcome, by signer: PayloadSigner) throws {
    transaction = outcome.transaction
    signedTransaction = try signer.sign(outcome.transaction)
    renewalInfo = outcome.renewalInfo
    signedRenewalInfo = try outcome.renewalInfo.map(signer.sign)
    notification = try SignedNotification(
      outcome.notification, signedTransaction: signedTransaction, signedRenewalInfo: signedRenewalInfo,
      by: signer)
    others = try outcome.others.map { try SignedNotification($0, by: signer) }
  }
}

extension SignedOutcome: Encodable {
  private enum Key: CodingKey {
    case transactionID, originalTransactionID, orderID, signedTransaction, signedRenewalInfo
    case notification, others
  }

  /// Encodes the answer of the control API.
  public func encode(to encoder: any Encoder) throws {
    var answer = encoder.container(keyedBy: Key.self)
    try answer.encode(transactionID, forKey: .transactionID)
    try answer.encode(originalTransactionID, forKey: .originalTransactionID)
    try answer.encodeIfPresent(orderID, forKey: .orderID)
    try answer.encode(signedTransaction, forKey: .signedTransaction)
    try answer.encodeIfPresent(signedRenewalInfo, forKey: .signedRenewalInfo)
    try answer.encode(notification, forKey: .notification)
    try answer.encode(others, forKey: .others)
  }
}
