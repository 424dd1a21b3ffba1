import AppStore
import Foundation
import Subscriptions

/// What is known about a refund request, and the rules for its answer.
///
/// Apple's rules: nothing is sent without the customer's consent, nor after 12 hours; the consumed share of an
/// auto-renewable subscription must not be sent, because the App Store computes it; of a purchase that was not delivered
/// it is 0.
struct RefundAnswer: Sendable {
  var policy: RefundAnswers
  /// Support's preference for this customer or purchase; `nil` for none.
  var preference: Preference?
  var transaction: TransactionFact
  /// For how long a product without an expiry gives access; `nil` for no end.
  var accessDays: Int?
  /// Whether the purchase gives what was bought.
  var isDelivered: Bool
  /// Whether the app has a free tier or a trial.
  var hasSample: Bool
  var hasConsent: Bool
  var askedAt: Date
  var deadline: Date

  /// Support's preference about a refund.
  struct Preference: Sendable, Hashable {
    var choice: RefundChoice
    var by: String
    var reason: String
  }

  /// What to do about a request.
  enum Decision: Sendable, Hashable {
    case send(ConsumptionRequest)
    /// Nothing can be sent now, for this reason.
    case wait(String)
    case settle(StoreCallOutcome, String)
  }

  func decision(at instant: Date) -> Decision {
    if transaction.revocationDate != nil {
      return .settle(.notNeeded, "the App Store has refunded the transaction")
    }
    guard transaction.ownership == "PURCHASED" else {
      return .settle(.notNeeded, "a family member did not pay for the purchase")
    }
    let isOver = instant >= deadline
    guard policy != .none || preference != nil else {
      let reason = "the app's refundAnswers is none"
      return isOver ? .settle(.noAnswer, reason) : .wait(reason)
    }
    guard hasConsent else {
      let reason = "the customer has not consented"
      return isOver ? .settle(.noConsent, reason) : .wait(reason)
    }
    return isOver ? .settle(.late, "12 hours have passed") : .send(request)
  }

  /// The body of the answer.
  var request: ConsumptionRequest {
    var request = ConsumptionRequest(
      customerConsented: true, deliveryStatus: isDelivered ? .delivered : .undeliveredOther,
      sampleContentProvided: hasSample)
    if transaction.kind != .autoRenewable { request.consumptionPercentage = consumptionPercentage }
    request.refundPreference =
      switch preference?.choice ?? RefundChoice(policy) {
      case .grant: .grantFull
      case .decline: .decline
      case .none: nil
      }
    return request
  }

  /// The consumed part when the App Store asked, in thousandths of a percent; `nil` for a purchase without an end.
  private var consumptionPercentage: Int32? {
    guard isDelivered else { return 0 }
    return transaction.consumedShare(at: askedAt, accessDays: accessDays).map {
      Int32(($0 * 100_000).rounded())
    }
  }

  /// A sent body in words, for support.
  func sentence(of body: ConsumptionRequest) -> String {
    let preference =
      switch body.refundPreference {
      case .grantFull?: "prefers the refund"
      case .decline?: "prefers no refund"
      default: "has no preference"
      }
    let share = transaction.consumedShare(at: askedAt, accessDays: accessDays).map {
      ", \(Int(($0 * 100).rounded())) % of the time had passed"
    }
    return "\(preference); \(body.deliveryStatus == .delivered ? "delivered" : "not delivered")\(share ?? "")"
  }
}

/// A preference about a refund.
public enum RefundChoice: String, Sendable, Codable, CaseIterable {
  /// Grant it in full.
  case grant
  /// Decline it.
  case decline
  /// None: facts only.
  case none

  init(_ policy: RefundAnswers) {
    self =
      switch policy {
      case .preferGrant: .grant
      case .preferDecline: .decline
      case .none, .facts: .none
      }
  }
}
