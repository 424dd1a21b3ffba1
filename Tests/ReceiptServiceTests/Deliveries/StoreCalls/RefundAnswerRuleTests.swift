import Foundation
import Subscriptions
import Testing

@testable import AppStore
@testable import Deliveries
@testable import Ledger
@testable import ReceiptService

@Suite struct RefundAnswerRuleTests {
  private static let start = Date(timeIntervalSince1970: 1_800_000_000)

  private func answer(_ change: (inout RefundAnswer) -> Void = { _ in }) -> RefundAnswer {
    var answer = RefundAnswer(
      policy: .facts, preference: nil,
      transaction: TransactionFact(
        transactionID: "1", originalTransactionID: "1", bundleID: "b", environment: .production,
        productID: "p", kind: .autoRenewable, purchaseDate: Self.start, expiresDate: Self.start + 10 * 86_400,
        signedAt: Self.start),
      accessDays: nil, isDelivered: true, hasSample: true, hasConsent: true,
      askedAt: Self.start + 86_400, deadline: Self.start + 86_400 + RefundRequest.timeToAnswer)
    change(&answer)
    return answer
  }

  private let now = Self.start + 86_401

  @Test func `facts about a subscription have no consumed share, because the App Store computes it`() {
    let body = answer().request
    #expect(body.customerConsented)
    #expect(body.deliveryStatus == .delivered)
    #expect(body.sampleContentProvided)
    #expect(body.consumptionPercentage == nil)
    #expect(body.refundPreference == nil)
    #expect(answer().decision(at: now) == .send(body))
    #expect(answer().sentence(of: body) == "has no preference; delivered, 10 % of the time had passed")
  }

  @Test func `a purchase for a time has the share that had passed when the App Store asked`() {
    let season = answer {
      $0.transaction.kind = .nonRenewing
      $0.transaction.expiresDate = nil
      $0.accessDays = 30
    }
    #expect(season.request.consumptionPercentage == 3_333)
    let lifetime = answer {
      $0.transaction.kind = .nonConsumable
      $0.transaction.expiresDate = nil
    }
    #expect(lifetime.request.consumptionPercentage == nil)
  }

  @Test func `a purchase that gives nothing is not delivered, and not consumed`() {
    let unknown = answer {
      $0.transaction.kind = .nonConsumable
      $0.isDelivered = false
    }
    #expect(unknown.request.deliveryStatus == .undeliveredOther)
    #expect(unknown.request.consumptionPercentage == 0)
    #expect(answer { $0.isDelivered = false }.request.consumptionPercentage == nil)
  }

  @Test(
    arguments: [
      (RefundAnswers.facts, RefundPreference?.none), (.preferGrant, .grantFull), (.preferDecline, .decline),
    ] as [(RefundAnswers, RefundPreference?)])
  func `the app's policy decides the preference`(policy: RefundAnswers, preference: RefundPreference?) {
    #expect(answer { $0.policy = policy }.request.refundPreference == preference)
  }

  @Test(
    arguments: [
      (.grant, .grantFull), (.decline, .decline), (.none, nil),
    ] as [(RefundChoice, RefundPreference?)])
  func `support's preference replaces the app's policy`(choice: RefundChoice, preference: RefundPreference?) {
    for policy in RefundAnswers.allCases {
      let answer = answer {
        $0.policy = policy
        $0.preference = RefundAnswer.Preference(choice: choice, by: "ada", reason: "ticket")
      }
      #expect(answer.request.refundPreference == preference)
      #expect(answer.decision(at: now) == .send(answer.request))
    }
  }

  @Test func `nothing is sent without consent, against the policy or after the deadline`() {
    let silent = answer { $0.hasConsent = false }
    #expect(silent.decision(at: now) == .wait("the customer has not consented"))
    #expect(silent.decision(at: silent.deadline) == .settle(.noConsent, "the customer has not consented"))
    let none = answer { $0.policy = .none }
    #expect(none.decision(at: now) == .wait("the app's refundAnswers is none"))
    #expect(none.decision(at: none.deadline) == .settle(.noAnswer, "the app's refundAnswers is none"))
    #expect(answer().decision(at: answer().deadline) == .settle(.late, "12 hours have passed"))
  }

  @Test func `the sentence is about the body that was sent, not about the policy since then`() {
    var sent = answer { $0.policy = .preferGrant }.request
    #expect(
      answer { $0.policy = .preferDecline }.sentence(of: sent).hasPrefix("prefers the refund; delivered"))
    sent.deliveryStatus = .undeliveredOther
    #expect(answer().sentence(of: sent).contains("; not delivered"))
  }

  @Test func `a call was not carried out after a rejection with a status below 500 or before it was sent`() {
    func rejected(_ status: Int, _ code: AppStoreErrorCode?) -> AppStoreServerError {
      .rejected(.init(status: status, code: code, message: nil, retryAfter: nil))
    }
    for error in [
      rejected(429, nil), rejected(404, .transactionIdNotFound), .unauthorizedWithoutJSON,
      .circuitOpen(retryAfter: .zero),
      .overloaded(retryAfter: .zero),
    ] { #expect(!error.mayBeCarriedOut, "\(error)") }
    for error in [
      rejected(500, .generalInternal), rejected(500, .generalInternalRetryable), rejected(502, nil),
      .transport(CancellationError()), .undecodableAnswer(status: 200, detail: ""),
    ] { #expect(error.mayBeCarriedOut, "\(error)") }
  }

  @Test func `a refunded purchase and a family member's need no answer`() {
    for change in [
      { (answer: inout RefundAnswer) in answer.transaction.revocationDate = Self.start },
      { (answer: inout RefundAnswer) in answer.transaction.ownership = "FAMILY_SHARED" },
    ] {
      guard case .settle(.notNeeded, _) = answer(change).decision(at: now) else {
        Issue.record("an answer was sent")
        continue
      }
    }
  }
}
