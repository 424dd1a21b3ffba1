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
