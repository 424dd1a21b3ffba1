import FoundationEssentials

/// What stands on a user's profile: the contract's premium columns.
///
/// `NULL` expiry means free or lifetime; the product tells which. After the end the last expiry and
/// product stay, in the past, so that support sees until when; a refund clears all three.
public struct PremiumStatus: Sendable, Hashable {
  /// Whether the user is premium now.
  public var isPremium: Bool
  /// The end of the access that is paid for or given, Apple's billing grace included.
  public var expiresAt: Date?
  /// The product that opens it; `grant:` and the tier where it was given.
  public var productID: String?
  /// The subscription that opens it.
  public var originalTransactionID: String?
  /// Whether it is access after the paid time (Apple's grace or the app's own).
  public var isInGracePeriod: Bool
  /// Whether the App Store will charge again, as far as is known.
  public var willRenew: Bool

  /// What stands there for who has nothing.
  public static let free = PremiumStatus()

  private init() {
    isPremium = false
    isInGracePeriod = false
    willRenew = false
  }

  /// Reads the profile off an answer.
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
    case .subscription, .trial, .freeTime, nil: break
    }
  }
}
