import AppStore
import Foundation

/// A notification before signing.
public struct StoreNotification: Hashable, Sendable {
  /// `notificationUUID`, in lower case.
  public var uuid: String
  /// `notificationType`.
  public var type: NotificationType
  /// `subtype`; nil if the type has none.
  public var subtype: Subtype?
  /// `signedDate` of the notification and its inner payloads.
  public var signedDate: Date
  /// Production or sandbox.
  public var environment: Environment
  /// The app's bundle id.
  public var bundleID: String
  /// The app's number.
  public var appAppleID: Int64
  /// `bundleVersion`.
  public var bundleVersion: String
  /// The subscription's status; nil for one-time purchases and `TEST`.
  public var status: SubscriptionStatus?
  /// The content of `signedTransactionInfo`.
  public var transaction: TransactionInfo?
  /// The content of `signedRenewalInfo`.
  public var renewalInfo: RenewalInfo?
  /// The reason of the refund request.
  public var consumptionRequestReason: ConsumptionRequestReason?
  /// The outcome of a mass extension; replaces a purchase.
  public var summary: NotificationSummary?
  /// A token for purchases outside of the store; replaces a purchase.
  public var externalPurchaseToken: ExternalPurchaseToken?
  /// The content of `signedAppTransactionInfo`; replaces a purchase.
  public var appTransaction: AppTransaction?
}
