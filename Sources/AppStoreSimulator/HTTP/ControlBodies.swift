import AppStore
import Foundation
import HTTP

// The bodies of the control API: receiptd's spelling (`ID` in capitals), times in RFC 3339.

struct AppTransactionBody: Decodable {
  let bundleID: String
  let environment: Environment?
  let account: String?
  let originalPurchaseDate: Date?
  let originalApplicationVersion: String?
}

struct TestBody: Decodable {
  let bundleID: String
  let environment: Environment?
}

struct WebhookBody: Decodable {
  let url: String?
  let retries: Bool?
}

/// The result of a purchase or a command.
struct OutcomeAnswer: Encodable {
  let transactionID: String
  let originalTransactionID: String
  let orderID: String?
  let signedTransaction: String
  let signedRenewalInfo: String?
  let notification: NotificationAnswer
  /// The further notifications that it caused.
  let others: [NotificationAnswer]
  /// The customer; only for a purchase.
  var account: String?
  var appTransactionID: String?
  var signedAppTransaction: String?
}

struct AppTransactionAnswer: Encodable {
  let appTransactionID: String?
  let signedAppTransaction: String
}

struct NotificationAnswer: Encodable {
  struct Delivery: Encodable {
    let at: Date
    let result: SendAttemptResult
    let status: Int?

    init(_ attempt: SendAttempt) {
      at = attempt.attemptDate
      result = attempt.outcome.result
      status = attempt.outcome.status
    }
  }

  let uuid: String
  let type: NotificationType
  let subtype: Subtype?
  let environment: Environment
  let bundleID: String
  let originalTransactionID: String?
  let transactionID: String?
  let externalPurchaseID: String?
  let signedDate: Date
  let signedPayload: String
  /// The latest attempt; nil before the first one.
  let delivery: Delivery?
  let attempts: Int
  /// The time of the next attempt; nil if there is none.
  let nextAttempt: Date?

  init(_ notification: SignedNotification, nextAttempt: Date?) {
    let content = notification.content
    uuid = content.uuid
    type = content.type
    subtype = content.subtype
    environment = content.environment
    bundleID = content.bundleID
    originalTransactionID = content.transaction?.originalTransactionId
    transactionID = content.transaction?.transactionId
    externalPurchaseID = content.externalPurchaseToken?.externalPurchaseId
    signedDate = content.signedDate
    signedPayload = notification.signedPayload
    delivery = notification.attempts.last.map(Delivery.init)
    attempts = notification.attempts.count
    self.nextAttempt = nextAttempt
  }
}

struct NotificationsAnswer: Encodable {
  let notifications: [NotificationAnswer]
}

extension SubscriptionCommand {
  /// Makes the command of a path's last segment.
  ///
  /// - Throws: 404 for an unknown name, 400 for a missing or wrong parameter.
  init(named name: String, _ body: CommandParameters) throws(Problem) {
    switch name {
    case "renew": self = .renew
    case "fail-renewal": self = .failToRenew(grace: body.grace)
    case "recover": self = .recover
    case "expire-grace": self = .endGrace
    case "expire": self = .expire(try Self.intent(body.reason))
    case "extend": self = .extend(days: try Self.require(body.days, "days"))
    case "auto-renew": self = .setAutoRenew(try Self.require(body.on, "on"))
    case "change-product":
      self = .changeProduct(
        try Self.require(body.productID, "productID"), appAccountToken: body.appAccountToken)
    case "redeem":
      self = .redeem(try Self.require(body.offer, "offer").storeOffer(), productID: body.productID)
    case "announce-price": self = .announcePrice(try Self.require(body.price, "price"))
    case "accept-price": self = .acceptPrice
    case "fail-extension": self = .failToExtend
    case "refund":
      self = .refund(
        transactionID: body.transactionID, percentage: body.percentage ?? 100,
        reason: body.reason == "issue" ? .refundedDueToIssue : .refundedForOtherReason)
    case "decline-refund": self = .declineRefund(transactionID: body.transactionID)
    case "reverse-refund": self = .reverseRefund(transactionID: body.transactionID)
    case "share": self = .share(accountID: body.account)
    case "revoke": self = .revoke
    case "request-consumption":
      self = .requestConsumption(
        transactionID: body.transactionID,
        reason: body.reason.map(ConsumptionRequestReason.init(rawValue:)) ?? .unintendedPurchase)
    default: throw .notFound("There is no command \(name).")
    }
  }

  private static func require<Value>(_ value: Value?, _ name: String) throws(Problem) -> Value {
    guard let value else { throw .invalidRequest("'\(name)' is missing.") }
    return value
  }

  private static func intent(_ reason: String?) throws(Problem) -> ExpirationIntent? {
    switch reason {
    case nil: nil
    case "voluntary": .customerCancelled
    case "billing-retry": .billingError
    case "price-increase": .customerDidNotConsentToPriceIncrease
    case "product-not-for-sale": .productNotAvailable
    case "other": .other
    default:
      throw .invalidRequest(
        "'reason' must be voluntary, billing-retry, price-increase, product-not-for-sale or other.")
    }
  }
}
