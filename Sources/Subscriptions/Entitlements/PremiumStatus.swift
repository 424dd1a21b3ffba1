import FoundationEssentials

/// What stands on a user's profile: the contract's premium columns.
///
/// `NULL` expiry means free or lifetime; the product tells which. After the end the last expiry and
/// product stay, in the past, so that support sees until when; a refund clears all three.
public struct PremiumStatus: Sendable, Hashable {
  /// Whether the user is premium now.
  public var isPremium: Bool
  /// The end of the access that is paid for, Apple's billing grace included.
  public var expiresAt: Date?
  /// The product that opens it.
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
    guard let source = entitlements.source, entitlements.status != .cancelled else {
      willRenew = false
      return
    }
    expiresAt = source.storeAccessEnds
    productID = source.productID(at: instant)
    originalTransactionID = source.current.originalTransactionID
    willRenew = source.willRenew(at: instant)
  }
}
