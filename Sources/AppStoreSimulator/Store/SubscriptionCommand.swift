import AppStore
import FoundationEssentials

/// What can happen to a subscription after it was bought, or to any transaction.
///
/// Each command does what the App Store does when it happens, and sends the notification that the App
/// Store sends.
public enum SubscriptionCommand: Hashable, Sendable {
  /// The next period is charged: `DID_RENEW`.
  case renew
  /// The charge fails: `DID_FAIL_TO_RENEW`, with `GRACE_PERIOD` where billing grace is given. `nil` asks
  /// the app's setting.
  case failToRenew(grace: Bool?)
  /// A failed charge succeeds after all: `DID_RENEW`, `BILLING_RECOVERY`.
  case recover
  /// Billing grace ends unpaid: `GRACE_PERIOD_EXPIRED`. The store goes on retrying.
  case endGrace
  /// The subscription ends: `EXPIRED` with the subtype of the intent; `nil` stands for the billing error
  /// where a charge has failed, else for the customer who cancelled.
  case expire(ExpirationIntent?)
  /// The customer turns renewal on or off: `DID_CHANGE_RENEWAL_STATUS`.
  case setAutoRenew(Bool)
  /// The customer changes to another product of the group: `DID_CHANGE_RENEWAL_PREF` with `UPGRADE` (at
  /// once), `DOWNGRADE` (at the next renewal) or, back to the current one, no subtype. A change that takes
  /// effect at once may bring another `appAccountToken`.
  case changeProduct(String, appAccountToken: UUID? = nil)
  /// The customer redeems an offer while the subscription is active: `OFFER_REDEEMED`. For another product it
  /// goes with a change to that product (`UPGRADE` at once, `DOWNGRADE` at the next renewal); for the current
  /// one it applies to the next period, and there is no subtype.
  case redeem(StoreOffer, productID: String?)
  /// A transaction is refunded, the current one where none is named: `REFUND`. The percentage is a whole
  /// number up to 100; less makes the refund prorated.
  case refund(transactionID: String?, percentage: Int, reason: RevocationReason)
  /// A refund is refused: `REFUND_DECLINED`.
  case declineRefund(transactionID: String?)
  /// A refund is taken back: `REFUND_REVERSED`.
  case reverseRefund(transactionID: String?)
  /// A family member loses what the family shared: `REVOKE`.
  case revoke
  /// The purchaser shares with a member of the family, a new account where none is named: `SUBSCRIBED` or
  /// `ONE_TIME_CHARGE`, about the member's own purchase. From then on what happens to the purchaser's
  /// subscription happens to the member's.
  case share(accountID: String?)
  /// The current period is made longer: `RENEWAL_EXTENDED`.
  case extend(days: Int)
  /// An extension of many could not extend this one: `RENEWAL_EXTENSION`, `FAILURE`.
  case failToExtend
  /// A higher price is announced, which the customer must accept: `PRICE_INCREASE`, `PENDING`.
  case announcePrice(Int64)
  /// The customer accepts it: `PRICE_INCREASE`, `ACCEPTED`.
  case acceptPrice
  /// Advanced Commerce: the app sets the price of the next period: `PRICE_CHANGE`.
  case changePrice(Int64)
  /// Advanced Commerce: the app changes what the subscription is called: `METADATA_UPDATE`.
  case updateMetadata
  /// Advanced Commerce: the app takes the subscription over: `MIGRATION`.
  case migrate
  /// The customer asks for a refund and the store asks the app: `CONSUMPTION_REQUEST`.
  case requestConsumption(transactionID: String?, reason: ConsumptionRequestReason)
}
