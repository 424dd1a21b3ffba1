import Foundation
import Subscriptions

/// A user's premium status, to be written to the app's tables.
struct ProfileWrite: Sendable {
  var userID: UUID
  var status: PremiumStatus

  /// The value of `bookmark_limit`, by the limits of the app that gives the status.
  var bookmarkLimit: Int

  /// Whether receiptd knows a purchase of the user that counts, or knew one until now. Else a row from before receiptd may
  /// have a claim that is still to be decided.
  var isDecided: Bool
}
