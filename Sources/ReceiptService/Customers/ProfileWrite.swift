import Foundation
import Subscriptions

/// A user's premium status, to be written to the app's tables.
struct ProfileWrite: Sendable {
  var userID: UUID
  var status: PremiumStatus

  /// `bookmark_limit`: 999 with premium, 2 without.
  var bookmarkLimit: Int { status.isPremium ? 999 : 2 }
}
