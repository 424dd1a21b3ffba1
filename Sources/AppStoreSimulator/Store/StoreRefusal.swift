import AppStore
import Foundation

/// The reasons why the store refuses a command, as the App Store would.
public enum StoreRefusal: Error, Hashable, Sendable {
  case unknownEnvironment(String)
  case unknownApp(String)
  case unknownProduct(String)
  case unknownTransaction(String)
  /// The request does not exist, or was decided already.
  case unknownRequest(UUID)
  /// The command needs a subscription, and the transaction is a one-time purchase.
  case notASubscription(String)
  /// The customer has a subscription of the group.
  case alreadySubscribed(originalTransactionID: String)
  /// The customer owns the non-consumable.
  case alreadyOwned(transactionID: String)
  /// The store has a transaction with the id that the purchase should have.
  case takenTransactionID(String)
  /// The subscription has not ended yet.
  case paidTimeRuns(until: Date)
  /// The billing grace period has not ended yet.
  case billingGraceRuns(until: Date)
  /// No charge has failed.
  case notInBillingRetry
  /// The charge has failed already and is retried.
  case inBillingRetry
  /// Billing grace does not run.
  case notInBillingGrace
  /// The subscription has ended; only a new purchase continues it.
  case ended
  /// The customer has turned renewal off.
  case renewalIsOff
  /// The current period was refunded or revoked.
  case revoked
  case alreadyRefunded
  case notRefunded
  case notFamilyShareable(String)
  case notFamilyShared
  /// The product is not in the subscription's group.
  case otherGroup(String)
  case noPriceIncrease
  /// Neither the paid period nor billing grace runs.
  case notActive
  /// The family member's purchase follows the purchaser's; only `revoke` is allowed.
  case followsPurchaser(originalTransactionID: String)
  /// Introductory offers are for new customers, win-back offers for former subscribers.
  case notEligible(OfferType)
  case unknownExternalPurchase(String)
  /// An error of the App Store Server API.
  case serverAPI(AppStoreErrorCode)

  /// The message of the response.
  public var message: String {
    switch self {
    case .unknownEnvironment(let name): "the simulator has no environment \(name)"
    case .unknownApp(let bundleID): "no app has the bundle id \(bundleID)"
    case .unknownProduct(let productID): "the app has no product \(productID)"
    case .unknownTransaction(let id): "there is no transaction \(id)"
    case .unknownRequest(let id): "there is no pending purchase \(id)"
    case .notASubscription(let id): "\(id) is not an auto-renewable subscription"
    case .alreadySubscribed(let id): "the customer has a subscription of the group: \(id)"
    case .alreadyOwned(let id): "the customer owns the product: transaction \(id)"
    case .takenTransactionID(let id): "there is a transaction \(id) already"
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
    case .serverAPI(let code): "the App Store Server API refuses this with \(code.rawValue)"
    }
  }

  /// Whether the named object does not exist, instead of being in the wrong state.
  public var isUnknownName: Bool {
    switch self {
    case .unknownEnvironment, .unknownApp, .unknownProduct, .unknownTransaction, .unknownRequest,
      .unknownExternalPurchase:
      true
    default: false
    }
  }
}
