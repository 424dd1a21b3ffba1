import AppStore
import Foundation

/// An event of a subscription after the purchase, or of any transaction.
///
/// Each command changes the store and sends notifications as the App Store does. The control API decodes a command from
/// its name and its parameters.
public enum SubscriptionCommand: Hashable, Sendable, Decodable {
  /// The next period is charged: `DID_RENEW`.
  case renew
  /// The charge fails: `DID_FAIL_TO_RENEW`, with `GRACE_PERIOD` if billing grace is given; `nil` uses the app's
  /// setting.
  case failToRenew(grace: Bool?)
  /// A failed charge succeeds: `DID_RENEW`, `BILLING_RECOVERY`.
  case recover
  /// Billing grace ends unpaid: `GRACE_PERIOD_EXPIRED`. The store keeps retrying.
  case endGrace
  /// The subscription ends: `EXPIRED` with the subtype of the intent; `nil` means billing error
  /// after a failed charge, else cancelled by the customer.
  case expire(ExpirationIntent?)
  /// The customer turns renewal on or off: `DID_CHANGE_RENEWAL_STATUS`.
  case setAutoRenew(Bool)
  /// The customer changes to another product of the group: `DID_CHANGE_RENEWAL_PREF` with `UPGRADE` (at once),
  /// `DOWNGRADE` (at the next renewal) or, back to the current product, no subtype. A change at once may set another
  /// `appAccountToken`.
  case changeProduct(String, appAccountToken: UUID? = nil)
  /// The customer redeems an offer in an active subscription: `OFFER_REDEEMED`. For another product it includes the
  /// change to it (`UPGRADE` at once, `DOWNGRADE` at the next renewal). For the current product it applies to the next
  /// period, without a subtype.
  case redeem(StoreOffer, productID: String?)
  /// A transaction is refunded, by default the current one and in full: `REFUND`. A percentage below 100 makes the
  /// refund prorated.
  case refund(transactionID: String?, percentage: Int?, reason: RevocationReason?)
  /// A refund is refused: `REFUND_DECLINED`.
  case declineRefund(transactionID: String?)
  /// A refund is reversed: `REFUND_REVERSED`.
  case reverseRefund(transactionID: String?)
  /// A family member loses a shared purchase: `REVOKE`.
  case revoke
  /// The purchaser shares with a family member, by default a new account: `SUBSCRIBED` or `ONE_TIME_CHARGE` about the
  /// member's own purchase. Later events of the purchaser's subscription apply to the member's too.
  case share(accountID: String?)
  /// The current period is made longer: `RENEWAL_EXTENDED`.
  case extend(days: Int)
  /// A mass extension fails for this subscription: `RENEWAL_EXTENSION`, `FAILURE`.
  case failToExtend
  /// A higher price is announced, which the customer must accept: `PRICE_INCREASE`, `PENDING`.
  case announcePrice(Int64)
  /// The customer accepts the price: `PRICE_INCREASE`, `ACCEPTED`.
  case acceptPrice
  /// The customer requests a refund, and the store requests the consumption: `CONSUMPTION_REQUEST`.
  case requestConsumption(transactionID: String?, reason: ConsumptionRequestReason?)

  /// The names in the control API.
  enum CodingKeys: String, CodingKey {
    case renew, recover, expire, redeem, refund, revoke, share, extend
    case failToRenew = "fail-renewal"
    case endGrace = "expire-grace"
    case setAutoRenew = "auto-renew"
    case changeProduct = "change-product"
    case declineRefund = "decline-refund"
    case reverseRefund = "reverse-refund"
    case failToExtend = "fail-extension"
    case announcePrice = "announce-price"
    case acceptPrice = "accept-price"
    case requestConsumption = "request-consumption"
  }

  // The parameters in the control API, where they differ from the labels.
  enum ExpireCodingKeys: String, CodingKey { case _0 = "reason" }
  enum SetAutoRenewCodingKeys: String, CodingKey { case _0 = "on" }
  enum ChangeProductCodingKeys: String, CodingKey {
    case _0 = "productID"
    case appAccountToken
  }
  enum RedeemCodingKeys: String, CodingKey {
    case _0 = "offer"
    case productID
  }
  enum ShareCodingKeys: String, CodingKey { case accountID = "account" }
  enum AnnouncePriceCodingKeys: String, CodingKey { case _0 = "price" }
}
