import AppStore
import FoundationEssentials

/// A notification that the store sends, before it is signed.
public struct StoreNotification: Hashable, Sendable {
  /// `notificationUUID`, in lower case.
  public var uuid: String
  /// `notificationType`.
  public var type: NotificationType
  /// `subtype`; absent where the type has none.
  public var subtype: Subtype?
  /// `signedDate`, of the notification and of what it carries.
  public var signedDate: Date
  /// Production or sandbox.
  public var environment: Environment
  /// The app's bundle id.
  public var bundleID: String
  /// The app's number.
  public var appAppleID: Int64
  /// `bundleVersion`.
  public var bundleVersion: String
  /// The subscription's status; absent for one-time purchases and `TEST`.
  public var status: SubscriptionStatus?
  /// What is signed as `signedTransactionInfo`.
  public var transaction: TransactionInfo?
  /// What is signed as `signedRenewalInfo`.
  public var renewalInfo: RenewalInfo?
  /// Why the customer wants their money back.
  public var consumptionRequestReason: ConsumptionRequestReason?
  /// The outcome of an extension of many renewal dates; stands in place of a purchase.
  public var summary: NotificationSummary?
  /// A token for purchases outside of the store; stands in place of a purchase.
  public var externalPurchaseToken: ExternalPurchaseToken?
  /// What is signed as `signedAppTransactionInfo`; stands in place of a purchase.
  public var appTransaction: AppTransaction?
}
