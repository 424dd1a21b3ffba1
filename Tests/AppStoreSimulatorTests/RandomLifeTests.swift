import AppStore
import Foundation
import Testing

@testable import AppStoreSimulator

struct RandomLifeTests {
  /// Each type with the subtypes that Apple documents for it; nil for none. The three types of the Advanced
  /// Commerce API are left out: the simulator does not serve it.
  private static let documented: [NotificationType: [Subtype?]] = [
    .subscribed: [.initialBuy, .resubscribe],
    .didChangeRenewalPref: [.upgrade, .downgrade, nil],
    .didChangeRenewalStatus: [.autoRenewEnabled, .autoRenewDisabled],
    .offerRedeemed: [.initialBuy, .resubscribe, .upgrade, .downgrade, nil],
    .didRenew: [.billingRecovery, nil],
    .didFailToRenew: [.gracePeriod, nil],
    .expired: [.voluntary, .billingRetry, .priceIncrease, .productNotForSale, nil],
    .gracePeriodExpired: [nil],
    .priceIncrease: [.pending, .accepted],
    .refund: [nil], .refundDeclined: [nil], .refundReversed: [nil], .consumptionRequest: [nil],
    .renewalExtended: [nil],
    .renewalExtension: [.summary, .failure],
    .revoke: [nil], .test: [nil], .oneTimeCharge: [nil], .rescindConsent: [nil],
    .externalPurchaseToken: [.created, .unreported, .activeTokenReminder],
  ]

  @Test
  func
    `a thousand random lives have every documented type and subtype of a purchase's notifications, and no other`()
  {
    struct Kind: Hashable {
      var type: NotificationType
      var subtype: Subtype?
    }
    var seen: Set<Kind> = []
    var offers: Set<OfferType> = []
    var kinds: Set<ProductType> = []
    for seed in 0..<1_000 {
      for notification in RandomLife(seed: UInt64(seed)).store.notifications {
        seen.insert(Kind(type: notification.type, subtype: notification.subtype))
        if let offer = notification.transaction?.offerType { offers.insert(offer) }
        if let kind = notification.transaction?.type { kinds.insert(kind) }
      }
    }
    let all = Self.documented.flatMap { type, subtypes in subtypes.map { Kind(type: type, subtype: $0) } }
    #expect(Self.documented.count == 20)
    #expect(Set(all).subtracting(seen).isEmpty)
    #expect(seen.subtracting(all).isEmpty)
    #expect(offers == [.introductoryOffer, .promotionalOffer, .offerCode, .winBackOffer])
    #expect(
      kinds == [.autoRenewableSubscription, .nonConsumable, .consumable, .nonRenewingSubscription])
  }

  @Test func `the same seed gives the same random life with the same ids`() {
    for seed in UInt64(0)..<20 {
      let life = RandomLife(seed: seed)
      #expect(life.facts == RandomLife(seed: seed).facts)
      #expect(life.facts != RandomLife(seed: seed + 1_000).facts)
    }
  }

  @Test func `the description of a random life lists its events and notifications`() {
    let life = RandomLife(seed: 3)
    let lines = "\(life)".split(separator: "\n")
    #expect(lines.first == "life 3 of com.example.everything")
    #expect(lines.count == 1 + life.events.count + life.store.notifications.count)
    for notification in life.store.notifications {
      #expect(lines.contains { $0.contains(notification.type.rawValue) })
    }
  }

  @Test func `random lives have renewals charged ahead, and events at a period's last millisecond and end`() {
    var ahead = 0
    var lastMilliseconds = 0
    var ends = 0
    var together = 0
    for seed in UInt64(0)..<200 {
      let events = RandomLife(seed: seed).events
      for (before, event) in zip(events, events.dropFirst()) {
        if before.at == event.at { together += 1 }
        for truth in before.truths {
          if truth.expiresDate == event.at { ends += 1 }
          if truth.expiresDate == (event.at + 0.001).wholeMilliseconds { lastMilliseconds += 1 }
          if truth.purchaseDate > before.at { ahead += 1 }
        }
      }
    }
    #expect(ahead > 20)
    #expect(lastMilliseconds > 20)
    #expect(ends > 20)
    #expect(together > 20)
  }
}
