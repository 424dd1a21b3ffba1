import Foundation

/// The premium columns of a user's profile.
///
/// A `NULL` expiry is free (without a product) or lifetime access. After the end, the last expiry and product stay, so that
/// support sees them; a refund clears expiry, product and transaction.
public struct PremiumStatus: Sendable, Hashable {
  /// Whether the user is premium now.
  public var isPremium: Bool
  /// The end of the paid or granted access, with Apple's billing grace.
  public var expiresAt: Date?
  /// The product; `grant:` and the tier for a grant.
  public var productID: String?
  /// The `originalTransactionId` of the subscription.
  public var originalTransactionID: String?
  /// Whether it is access after the paid time (Apple's grace or the app's own).
  public var isInGracePeriod: Bool
  /// Whether the App Store is expected to charge again.
  public var willRenew: Bool

  /// The status of a user without access.
  public static let free = PremiumStatus()

  private init() {
    isPremium = false
    isInGracePeriod = false
    willRenew = false
  }

  /// The status for entitlements.
  public init(_ entitlements: Entitlements, at instant: Date) {
    isPremium = entitlements.isAccessGranted
    isInGracePeriod = entitlements.status == .grace
    willRenew = false
    switch entitlements.source {
    case .subscription(let subscription) where entitlements.status != .cancelled:
      expiresAt = subscription.storeAccessEnds
      productID = subscription.productID(at: instant)
      originalTransactionID = subscription.current.originalTransactionID
      willRenew = subscription.willRenew(at: instant)
    case .grant(let grant):
      expiresAt = grant.endsAt
      productID = grant.productID
    case .subscription, .trial, .freeAccess, nil: break
    }
  }
}
