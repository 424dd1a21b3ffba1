import Foundation
import Testing

@testable import Subscriptions

/// The owner by signed account tokens, for any order of arrival.
@Suite struct TokenOrderTests {
  private let anna = UUID()
  private let boris = UUID()
  private let clara = UUID()

  /// A signature of a period, with or without a token.
  private func signature(
    of id: String = "1000", from start: Double = 0, _ token: UUID?, signed: Double, revoked: Double? = nil
  ) -> TransactionFact {
    period(id, from: start, to: start + 30, revoked: revoked, token: token, signed: signed)
  }

  /// The owners after every order of the facts. In each order, a customer without a token claims the purchase first.
  private func owners(_ facts: [TransactionFact], claimant: UUID? = nil) -> Set<Customer?> {
    Set(
      ordersWithRepeats(facts).map { order in
        var known = SubscriptionFacts()
        var (owner, decided): (Ownership?, UUID?) = (nil, nil)
        for (number, fact) in order.enumerated() {
          known.add(fact)
          let outcome = decideOwner(
            claimant: number == 0 ? claimant.map { .user($0) } : nil, owner: owner,
            token: known.customerToken, decidedToken: decided, kind: .user, policy: .keep, isActive: true)
          switch outcome {
          case .settled(let now), .refused(let now): owner = now
          case .moved(let now, _), .shared(let now, _, _), .postponed(let now): owner = now
          }
          decided = known.customerToken ?? decided
        }
        return owner?.customer
      })
  }

  @Test func `a later signature without a token does not remove the token`() {
    let facts = [
      signature(anna, signed: 0), signature(nil, signed: 5), signature(nil, signed: 9, revoked: 9),
    ]
    #expect(owners(facts) == [.user(anna)])
    #expect(owners(facts, claimant: boris) == [.user(anna)])
    let tokens = ordersWithRepeats(facts).map { SubscriptionFacts($0).customerToken }
    #expect(Set(tokens) == [anna])
  }

  @Test func `of two tokens of one transaction the last signed one decides`() {
    let facts = [
      signature(anna, signed: 0), signature(boris, signed: 5), signature(nil, signed: 9),
      signature(nil, signed: 3),
    ]
    #expect(owners(facts) == [.user(boris)])
    #expect(owners(facts, claimant: clara) == [.user(boris)])
  }

  /// The App Store signs the former token in a copy until it signs that copy again.
  @Test func `a token that replaced another one counts for all transactions of the period`() {
    let facts = [
      signature(of: "1001", anna, signed: 0), signature(of: "1001", boris, signed: 5),
      signature(of: "1002", anna, signed: 3), signature(of: "1002", nil, signed: 9),
    ]
    #expect(owners(facts) == [.user(boris)])
    #expect(owners(facts, claimant: clara) == [.user(boris)])
    // Without a change, the latest transaction decides, whichever is signed again.
    let apart = [
      signature(of: "1001", anna, signed: 0), signature(of: "1002", boris, signed: 3),
      signature(of: "1001", anna, signed: 7), signature(of: "1002", boris, signed: 8),
      signature(of: "1001", anna, signed: 9),
    ]
    #expect(Set(ordersWithRepeats(apart).map { SubscriptionFacts($0).customerToken }) == [boris])
    let upgraded =
      apart + [
        period("1001", from: 0, to: 30, upgraded: true, token: anna, signed: 12),
        period("1002", from: 0, to: 30, upgraded: true, token: boris, signed: 11),
      ]
    for facts in [upgraded, Array(upgraded.dropLast()), upgraded.dropLast(2) + upgraded.suffix(1)] {
      #expect(SubscriptionFacts(facts).customerToken == boris)
    }
    // A later period has its own token.
    let tokens = ordersWithRepeats(facts + [signature(of: "1003", from: 30, clara, signed: 30)]).map {
      SubscriptionFacts($0).customerToken
    }
    #expect(Set(tokens) == [clara])
  }

  @Test(arguments: [PurchaseKind.nonConsumable, .nonRenewing])
  func `the tokens of a restored purchase without periods are those of one purchase until a refund`(
    kind: PurchaseKind
  ) {
    func copy(_ id: String, bought: Double, _ token: UUID, signed: Double, revoked: Double? = nil)
      -> TransactionFact
    {
      period(
        id, from: bought, to: nil, product: "lifetime", kind: kind, revoked: revoked, token: token,
        signed: signed)
    }
    let facts = [
      copy("1000", bought: 0, anna, signed: 0), copy("1000", bought: 0, boris, signed: 8),
      copy("1002", bought: 3, anna, signed: 5),
    ]
    #expect(owners(facts) == [.user(boris)])
    let again = [
      copy("1000", bought: 0, boris, signed: 12, revoked: 10), copy("1002", bought: 11, anna, signed: 11),
    ]
    #expect(Set(ordersWithRepeats(again).map { SubscriptionFacts($0).customerToken }) == [anna])
    // Also when that refund is reversed.
    let reversed = again + [copy("1000", bought: 0, boris, signed: 14)]
    #expect(Set(ordersWithRepeats(reversed).map { SubscriptionFacts($0).customerToken }) == [anna])
    let apart = [
      copy("1000", bought: 0, anna, signed: 0), copy("1002", bought: 3, boris, signed: 3),
      copy("1000", bought: 0, anna, signed: 8),
    ]
    #expect(Set(ordersWithRepeats(apart).map { SubscriptionFacts($0).customerToken }) == [boris])
  }

  @Test func `of two tokens signed in the same millisecond the same one decides in any order`() {
    let facts = [signature(anna, signed: 5), signature(boris, signed: 5), signature(nil, signed: 5)]
    #expect(owners(facts).count == 1)
    #expect(owners(facts) != [nil])
  }

  @Test func `the token of the latest purchase decides, also when an earlier one is signed again`() {
    let facts = [
      signature(anna, signed: 0), signature(of: "1001", from: 10, boris, signed: 10),
      signature(of: "1001", from: 10, nil, signed: 12), signature(anna, signed: 40, revoked: 40),
    ]
    #expect(owners(facts) == [.user(boris)])
  }

  @Test func `a later purchase without a token keeps the token of the earlier one`() {
    let facts = [
      signature(anna, signed: 0), signature(nil, signed: 2),
      signature(of: "1001", from: 30, nil, signed: 30),
    ]
    #expect(owners(facts, claimant: boris) == [.user(anna)])
  }

  @Test func `a late signature with a new token changes only the token`() {
    var known = SubscriptionFacts([signature(nil, signed: 9, revoked: 9)])
    let isNews = known.add(signature(anna, signed: 0))
    #expect(isNews)
    let isNewsAgain = known.add(signature(anna, signed: 0))
    #expect(!isNewsAgain)
    #expect(known.customerToken == anna)
    #expect(known.current?.revocationDate == day(9))
    #expect(known.current?.signedAt == day(9))
    // An earlier token tells that the token was changed, and nothing else.
    let unchanged = known.transactions["1000"]
    let isEarlierTokenNews = known.add(signature(boris, signed: -1))
    #expect(isEarlierTokenNews)
    let isAnotherEarlierOneNews = known.add(signature(clara, signed: -2))
    #expect(!isAnotherEarlierOneNews)
    #expect(known.customerToken == anna)
    var changed = unchanged
    changed?.isTokenChanged = true
    #expect(known.transactions["1000"] == changed)
  }
}
