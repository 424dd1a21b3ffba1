import AppStore
import FoundationEssentials

/// What the store will not do, because the App Store would not either.
public enum StoreRefusal: Error, Hashable, Sendable {
  case unknownEnvironment(String)
  case unknownApp(String)
  case unknownProduct(String)
  case unknownTransaction(String)
  /// Nobody asked for it, or it was decided already.
  case unknownRequest(UUID)
  /// The command is about renewals and the transaction is a one-time purchase.
  case notASubscription(String)
  /// The customer has this subscription of the group already.
  case alreadySubscribed(originalTransactionID: String)
  /// The customer owns this non-consumable already.
  case alreadyOwned(transactionID: String)
  /// The subscription has not ended yet.
  case paidTimeRuns(until: Date)
  /// The billing grace period has not ended yet.
  case billingGraceRuns(until: Date)
  /// There is no failed charge to recover from or to give up.
  case notInBillingRetry
  /// The charge has failed already and is being tried again.
  case inBillingRetry
  /// There was no billing grace.
  case notInBillingGrace
  /// The subscription has ended; only buying it again goes on.
  case ended
  /// The customer has turned renewal off.
  case renewalIsOff
  /// The current period was refunded or revoked.
  case revoked
  case alreadyRefunded
  case notRefunded
  case notFamilyShareable(String)
  case notFamilyShared
  /// The other product is not in the subscription's group.
  case otherGroup(String)
  case noPriceIncrease
  /// Neither paid time nor billing grace runs.
  case notActive
  /// The family member's purchase follows the purchaser's and takes no command but to be revoked.
  case followsPurchaser(originalTransactionID: String)
  /// New customers get introductory offers, those who left win-back offers.
  case notEligible(OfferType)
  case unknownExternalPurchase(String)

  /// A sentence for a person.
  public var message: String {
    switch self {
    case .unknownEnvironment(let name): "the simulator has no environment \(name)"
    case .unknownApp(let bundleID): "no app has the bundle id \(bundleID)"
    case .unknownProduct(let productID): "the app has no product \(productID)"
    case .unknownTransaction(let id): "there is no transaction \(id)"
    case .unknownRequest(let id): "no purchase waits for a decision by the id \(id)"
    case .notASubscription(let id): "\(id) is not an auto-renewable subscription"
    case .alreadySubscribed(let id): "the customer has a subscription of this group: \(id)"
    case .alreadyOwned(let id): "the customer owns this: \(id)"
    case .paidTimeRuns(let date): "the paid time runs until \(date.formatted(.iso8601))"
    case .billingGraceRuns(let date): "the billing grace runs until \(date.formatted(.iso8601))"
    case .notInBillingRetry: "no charge has failed"
    case .inBillingRetry: "the charge has failed already"
    case .notInBillingGrace: "there is no billing grace"
    case .ended: "the subscription has ended"
    case .renewalIsOff: "the customer has turned renewal off"
    case .revoked: "the current period was refunded or revoked"
    case .alreadyRefunded: "the transaction was refunded or revoked already"
    case .notRefunded: "the transaction was not refunded"
    case .notFamilyShareable(let productID): "\(productID) cannot be shared with a family"
    case .notFamilyShared: "the subscription was bought, not shared by a family"
    case .otherGroup(let productID): "\(productID) is not in the subscription's group"
    case .noPriceIncrease: "no price increase was announced"
    case .notActive: "the subscription is not active"
    case .followsPurchaser(let id): "a family member's purchase follows the purchaser's: \(id)"
    case .notEligible(let offer): "the customer is not eligible for an offer of type \(offer.rawValue)"
    case .unknownExternalPurchase(let id): "there is no external purchase \(id)"
    }
  }

  /// Whether something that was named does not exist, rather than being in a state that forbids it.
  public var isUnknownName: Bool {
    switch self {
    case .unknownEnvironment, .unknownApp, .unknownProduct, .unknownTransaction, .unknownRequest,
      .unknownExternalPurchase:
      true
    default: false
    }
  }
}
