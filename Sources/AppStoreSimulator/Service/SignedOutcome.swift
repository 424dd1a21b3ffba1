import AppStore
import Foundation

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
  public let notification: SignedNotification
  /// The further notifications, in order.
  public let others: [SignedNotification]

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

/// A signed notification with its delivery attempts.
public struct SignedNotification: Sendable {
  /// The content before signing.
  public let content: StoreNotification
  /// The JWS for `{"signedPayload": "…"}`.
  public let signedPayload: String
  /// The delivery attempts.
  public internal(set) var attempts: [SendAttempt] = []

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

/// The notifications of a store, indexed by UUID.
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
