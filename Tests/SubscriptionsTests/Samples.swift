import Foundation
import Subscriptions

/// The instant this many days after an arbitrary start.
func day(_ days: Double) -> Date {
  Date(timeIntervalSince1970: 1_760_000_000 + days * 86_400)
}

/// A period of a monthly subscription; the test sets the relevant fields.
func period(
  _ id: String, from start: Double, to end: Double?, product: String = "monthly",
  kind: PurchaseKind = .autoRenewable, revoked: Double? = nil, upgraded: Bool = false,
  environment: StoreEnvironment = .production, original: String = "1000", token: UUID? = nil,
  signed: Double? = nil
) -> TransactionFact {
  TransactionFact(
    transactionID: id, originalTransactionID: original, bundleID: "com.example.app",
    environment: environment, productID: product, kind: kind, purchaseDate: day(start),
    expiresDate: end.map { day($0) }, revocationDate: revoked.map { day($0) }, isUpgraded: upgraded,
    appAccountToken: token, signedAt: day(signed ?? start))
}

/// A purchase that never expires.
func lifetime(
  _ id: String, bought: Double, revoked: Double? = nil, original: String = "1000", signed: Double? = nil
) -> TransactionFact {
  period(
    id, from: bought, to: nil, product: "lifetime", kind: .nonConsumable, revoked: revoked,
    original: original, signed: signed ?? revoked)
}

/// Every order of the elements. Each order repeats one element at a varying place.
func ordersWithRepeats<Element>(_ elements: [Element]) -> [[Element]] {
  func orders(_ elements: [Element]) -> [[Element]] {
    guard elements.count > 1 else { return [elements] }
    return elements.indices.flatMap { index in
      var rest = elements
      let first = rest.remove(at: index)
      return orders(rest).map { [first] + $0 }
    }
  }
  return orders(elements).enumerated().map { number, order in
    var order = order
    order.insert(elements[number % elements.count], at: number % (order.count + 1))
    return order
  }
}

func renewalInfo(
  signed: Double, autoRenew: Bool = true, retry: Bool = false, graceUntil: Double? = nil,
  renewsAs: String = "monthly", renewalDate: Double? = nil
) -> RenewalFact {
  RenewalFact(
    originalTransactionID: "1000", environment: .production, productID: "monthly",
    renewsAs: renewsAs, willAutoRenew: autoRenew, isInBillingRetry: retry,
    graceExpiresDate: graceUntil.map { day($0) }, renewalDate: renewalDate.map { day($0) },
    signedAt: day(signed))
}

func sampleApp(
  ownGraceDays: Int? = nil, sandbox: SandboxGrants = .nobody, policy: TransferPolicy = .keep,
  trial: Allowance? = nil, offline: OfflineRule = .grace
) -> App {
  App(
    bundleID: "com.example.app", name: "Example", sandboxGrants: sandbox, customer: .user,
    transferPolicy: policy,
    products: [
      Product(id: "monthly", tier: "basic", aliases: ["old.monthly"]),
      Product(id: "family", tier: "family"), Product(id: "lifetime", tier: "basic"),
      Product(id: "season", tier: "basic", accessDays: 90),
    ],
    tiers: [
      Tier(name: "basic", rank: 1, features: ["seats": .count(1)]),
      Tier(name: "family", rank: 2, features: ["seats": .count(5)]),
    ],
    free: ["seats": .count(0)], trial: trial,
    grace: ownGraceDays.map { Allowance(days: $0, features: ["seats": .word("warning")]) }, offline: offline)
}

extension SubscriptionFacts {
  init(_ transactions: [TransactionFact], _ renewal: RenewalFact? = nil) {
    self.init(transactions: transactions, renewal: renewal)
  }

  /// `store status/status` at a day.
  func words(at days: Double, app: App = sampleApp()) -> String? {
    subscription(under: app).map { subscription in
      let phase = subscription.phase(at: day(days))
      return "\(phase.storeStatus.rawValue)/\(phase.status.rawValue)"
    }
  }
}
