import AppStore
import Foundation
import Platform

extension RandomLife {
  /// The kinds of acts with their frequencies.
  enum Act: CaseIterable {
    case subscribe, buyOnce, renew, fail, recover, endGrace, expire, stopRenewing, resumeRenewing
    case changeProduct, redeem, refund, refundEarlier, declineRefund, reverseRefund, requestConsumption
    case share, revoke, extend, failToExtend, extendAll, announcePrice, acceptPrice
    case externalPurchase, rescindConsent, test

    private var weight: Int {
      switch self {
      case .renew: 60
      case .subscribe, .fail, .recover: 20
      case .changeProduct, .endGrace: 12
      case .stopRenewing, .resumeRenewing, .expire, .refund, .redeem: 8
      case .buyOnce, .reverseRefund, .refundEarlier, .share: 6
      case .extend, .revoke, .announcePrice, .acceptPrice: 4
      case .requestConsumption, .declineRefund, .externalPurchase, .extendAll: 3
      case .failToExtend, .rescindConsent, .test: 1
      }
    }

    private static let lots = allCases.flatMap { Array(repeating: $0, count: $0.weight) }

    static func any(using random: inout SplitMix64) -> Act { lots.randomElement(using: &random) ?? .renew }
  }

  /// - Returns: a description; nil if the store refused or no purchase fits.
  mutating func carryOut(_ act: Act) -> String? {
    switch act {
    case .subscribe: subscribe()
    case .buyOnce: buyOnce()
    case .renew: isDue() ? perform(.renew) : nil
    case .fail:
      isDue() ? perform(.failToRenew(grace: [nil, true, false].randomElement(using: &random) ?? nil)) : nil
    case .recover: perform(.recover)
    case .endGrace: perform(.endGrace)
    case .expire:
      perform(
        .expire(
          [nil, .customerDidNotConsentToPriceIncrease, .productNotAvailable, .other]
            .randomElement(using: &random) ?? nil))
    case .stopRenewing: perform(.setAutoRenew(false))
    case .resumeRenewing: perform(.setAutoRenew(true))
    case .changeProduct:
      anySubscription().flatMap {
        perform(.changeProduct($0, appAccountToken: chance(20) ? customerTokens.last : nil))
      }
    case .redeem: perform(.redeem(anyOffer(), productID: chance(60) ? anySubscription() : nil))
    case .refund, .refundEarlier:
      perform(
        .refund(
          transactionID: act == .refund ? nil : anyTransaction(), percentage: chance(30) ? 40 : 100,
          reason: chance(50) ? .refundedDueToIssue : .refundedForOtherReason))
    case .declineRefund: perform(.declineRefund(transactionID: anyTransaction()))
    case .reverseRefund: perform(.reverseRefund(transactionID: chance(50) ? anyTransaction() : nil))
    case .requestConsumption:
      perform(.requestConsumption(transactionID: anyTransaction(), reason: .unsatisfiedWithPurchase))
    case .share: perform(.share(accountID: ["ben", "cat", "dan"].randomElement(using: &random)))
    case .revoke: perform(.revoke)
    case .extend: perform(.extend(days: Int.random(in: 1...90, using: &random)))
    case .failToExtend: perform(.failToExtend)
    case .announcePrice: perform(.announcePrice(5990))
    case .acceptPrice: perform(.acceptPrice)
    case .extendAll: extendAll()
    case .externalPurchase, .rescindConsent, .test: announce(act)
    }
  }

  // MARK: Purchases

  private mutating func subscribe() -> String? {
    guard let product = anySubscription() else { return nil }
    let offer = chance(40) ? anyOffer() : nil
    return buy(
      PurchaseRequest(
        bundleID: app.bundleID, productID: product, accountID: "ann", appAccountToken: anyToken(),
        offer: offer, announcesOffer: chance(30)))
  }

  private mutating func buyOnce() -> String? {
    guard let product = oneTimeIDs.randomElement(using: &random) else { return nil }
    return buy(
      PurchaseRequest(
        bundleID: app.bundleID, productID: product, accountID: "ann", appAccountToken: anyToken()))
  }

  private mutating func buy(_ request: PurchaseRequest) -> String? {
    let outcome = attempt { store, now throws(StoreRefusal) in try store.buy(request, at: now) }
    return outcome.map { _ in
      "buys \(request.productID)" + (request.offer.map { " with an offer of type \($0.type.rawValue)" } ?? "")
    }
  }

  // MARK: Commands

  /// Carries out a command on a fitting purchase.
  private mutating func perform(_ command: SubscriptionCommand) -> String? {
    guard let id = subject(of: command) else { return nil }
    let outcome = attempt { store, now throws(StoreRefusal) in try store.perform(command, on: id, at: now) }
    return outcome.map { _ in "\(command) on \(id)" }
  }

  private mutating func subject(of command: SubscriptionCommand) -> String? {
    switch command {
    case .refund(let named?, _, _), .declineRefund(let named?), .reverseRefund(let named?),
      .requestConsumption(let named?, _):
      return store.transactions[named]?.originalTransactionId
    case .renew, .failToRenew:
      return purchases.first(where: isDue)
    default: return purchases.randomElement(using: &random)
    }
  }

  /// Whether the store would charge now: from a day before the end of the paid period.
  private func isDue(_ id: String) -> Bool {
    guard let truth = store.truth(of: id, at: end), let expiresDate = truth.expiresDate else { return false }
    return truth.autoRenews && store.sharing.purchaser(of: id) == nil && end >= expiresDate - 86_400
  }

  private func isDue() -> Bool { purchases.contains(where: isDue) }

  private mutating func extendAll() -> String? {
    guard let product = anySubscription() else { return nil }
    let identifier = UUID(randomFrom: &random).uuidString.lowercased()
    let request = MassExtendRenewalDateRequest(
      productId: product, extendByDays: Int32(Int.random(in: 1...90, using: &random)),
      extendReasonCode: .other, requestIdentifier: identifier)
    let bundleID = app.bundleID
    let sent = attempt { store, now throws(StoreRefusal) in
      try store.extendAll(request, in: bundleID, at: now)
    }
    return sent.map { _ in "the app extends every \(product) by \(request.extendByDays) days" }
  }

  private mutating func announce(_ act: Act) -> String? {
    let bundleID = app.bundleID
    let notification: StoreNotification?
    switch act {
    case .externalPurchase:
      let token = store.externalPurchaseTokens.keys.sorted().first
      let event = ExternalPurchaseEvent.allCases.randomElement(using: &random) ?? .created
      notification = attempt { store, now throws(StoreRefusal) in
        try store.externalPurchase(event, id: token, bundleID: bundleID, at: now)
      }
    case .rescindConsent:
      notification = attempt { store, now throws(StoreRefusal) in
        try store.rescindConsent(bundleID: bundleID, accountID: "ann", at: now)
      }
    default:
      notification = attempt { store, now throws(StoreRefusal) in try store.test(bundleID: bundleID, at: now)
      }
    }
    return notification.map { "the store sends \($0.type.rawValue)" }
  }

  // MARK: Choices

  private mutating func anySubscription() -> String? {
    subscriptionIDs.randomElement(using: &random)
  }

  private mutating func anyTransaction() -> String? {
    purchases.randomElement(using: &random)
      .flatMap { store.transactionIDs(of: $0).randomElement(using: &random) }
  }

  private mutating func anyToken() -> UUID? {
    chance(80) ? customerTokens.first : chance(50) ? customerTokens.last : nil
  }

  private mutating func anyOffer() -> StoreOffer {
    let period = [StorePeriod.week, .month, StorePeriod(3, .day)].randomElement(using: &random) ?? .week
    switch Int.random(in: 0..<4, using: &random) {
    case 0: return .freeTrial(period)
    case 1: return .discount(.promotionalOffer, period: period)
    case 2: return .discount(.offerCode, period: period)
    default: return .discount(.winBackOffer, period: period)
    }
  }
}
