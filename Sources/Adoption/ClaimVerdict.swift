import Customers
import Foundation
import Subscriptions

/// The decision on a claim: a customer who names a transaction, or paid and names none.
package enum ClaimVerdict: String, Sendable, Hashable, CaseIterable {
  /// The customer owns the purchase, and it gives access.
  case bound
  /// The customer owns the purchase, and it has ended.
  case expired
  /// The customer owns the purchase, and it was refunded or revoked.
  case refunded
  /// The customer owns the purchase, and it gives no access: it is of the sandbox, or its product is not configured.
  case notCounted = "not_counted"
  /// The purchase belongs to another customer.
  case anotherCustomer = "another_customer"
  /// Several customers claim the purchase, and Apple has signed the account of none.
  case claimedTwice = "claimed_twice"
  /// The App Store does not know the transaction, or it is of another app.
  case unknown
  /// The customer paid and names no transaction: there is an award.
  case awarded
  /// The customer's award has ended, or support revoked it. Only a report has this verdict.
  case awardEnded = "award_ended"
  /// The file names a user whom the app does not have.
  case unknownCustomer = "unknown_customer"
  /// The App Store or the database did not answer. To be tried again.
  case failed

  /// The verdict on a purchase after its claim was recorded.
  /// - Parameter claimant: the customer who makes the claim.
  init(_ stored: StoredSubscription, for claimant: Customer, at instant: Date) {
    guard stored.customers.contains(claimant) else {
      self = stored.owner == nil ? .claimedTwice : .anotherCustomer
      return
    }
    switch stored.subscription.phase(at: instant).status {
    case .cancelled: self = .refunded
    case .expired: self = .expired
    case .trial, .active, .grace: self = stored.isCounted ? .bound : .notCounted
    }
  }
}

extension ClaimVerdict {
  /// Whether a later run takes the decision over.
  var isFinal: Bool { !ProfileTable.undecidedOutcomes.contains(rawValue) }

  /// Whether the App Store may say something else by now: a purchase was renewed, a refund reversed, or a transaction
  /// became known.
  var mayHaveChanged: Bool {
    switch self {
    case .expired, .refunded, .unknown: true
    case .bound, .notCounted, .anotherCustomer, .claimedTwice, .awarded, .awardEnded, .unknownCustomer,
      .failed:
      false
    }
  }
}

/// A verdict with its reason.
struct DecidedClaim: Sendable, Hashable {
  var verdict: ClaimVerdict
  /// The reason in words; `nil` if the verdict says all.
  var detail: String?
  /// The purchase that the claimed transaction belongs to; `nil` if none is known.
  var purchaseID: String?

  /// Of a claim that was read and not looked up.
  static let open = DecidedClaim(.failed, "not decided yet")

  init(_ verdict: ClaimVerdict, _ detail: String? = nil, purchaseID: String? = nil) {
    self.verdict = verdict
    self.detail = detail
    self.purchaseID = purchaseID
  }

  /// The verdict that the database gives now on a claim to a purchase.
  init(_ stored: StoredSubscription, for claimant: Customer, at instant: Date) {
    self.init(
      ClaimVerdict(stored, for: claimant, at: instant), purchaseID: stored.originalTransactionID)
  }
}
