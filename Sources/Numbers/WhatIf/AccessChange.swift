import Foundation
import Ledger
import Subscriptions
import Text

/// The first difference between what a customer has under two configurations, now or at a later instant.
package struct AccessChange: Sendable, Hashable {
  /// What changes, the gravest first.
  package enum Kind: Sendable, Hashable, Comparable {
    case losesAccess
    case changesTier(from: String, to: String)
    /// The names of the features, in the order of the alphabet.
    case changesFeatures([String])
    case gainsAccess

    private var order: Int {
      switch self {
      case .losesAccess: 0
      case .changesTier: 1
      case .changesFeatures: 2
      case .gainsAccess: 3
      }
    }

    package static func < (a: Kind, b: Kind) -> Bool { (a.order, a.words) < (b.order, b.words) }

    /// The change in words.
    package var words: String {
      switch self {
      case .losesAccess: "loses access"
      case .changesTier(let from, let to): "changes tier from \(from) to \(to)"
      case .changesFeatures(let names): "changes \(names.joined(separator: ", "))"
      case .gainsAccess: "gains access"
      }
    }
  }

  package let kind: Kind
  /// When; the instant of the comparison for a change at once.
  package let at: Date

  /// The most instants that are compared: a customer with many purchases has no more.
  private static let mostInstants = 64

  /// The first difference at `instant` or later, if no new facts arrive.
  /// - Parameters:
  ///   - former: what the customer has under the configuration in force at an instant.
  ///   - latter: what the customer would have under the other one.
  init?(
    from instant: Date, _ former: (Date) -> Entitlements, _ latter: (Date) -> Entitlements
  ) {
    var at = instant
    for _ in 0..<Self.mostInstants {
      let (before, after) = (former(at), latter(at))
      if let kind = Kind(before, after) {
        (self.kind, self.at) = (kind, at)
        return
      }
      guard let next = [before.validUntil, after.validUntil].compactMap(\.self).filter({ $0 > at }).min()
      else {
        return nil
      }
      at = next
    }
    return nil
  }
}

extension AccessChange.Kind {
  /// `nil` if both are equal for the customer.
  fileprivate init?(_ before: Entitlements, _ after: Entitlements) {
    switch (before.isAccessGranted, after.isAccessGranted) {
    case (true, false): self = .losesAccess
    case (false, true): self = .gainsAccess
    default:
      if before.tier != after.tier, before.isAccessGranted {
        self = .changesTier(from: before.tier ?? "none", to: after.tier ?? "none")
        return
      }
      // By name: a configuration under review may have any number of features.
      let (former, latter) = (before.features.byName, after.features.byName)
      let names = Set(former.keys).union(latter.keys).filter { former[$0] != latter[$0] }.sorted()
      guard !names.isEmpty else { return nil }
      self = .changesFeatures(names)
    }
  }
}

/// The monthly revenue of a customer's running subscriptions, by currency (ISO 4217).
package struct MonthlyRevenue: Sendable, Hashable {
  /// In thousandths of the currency's unit.
  private(set) var milliunits: [String: Double] = [:]

  package init() {}

  /// Adds a subscription, as the column `mrr` of `kpi_daily` counts it, but not rounded: of a year a twelfth; of less
  /// than half a month, by days.
  mutating func add(_ subscription: Subscription, in app: App?, at instant: Date) {
    let fact = subscription.current
    guard fact.kind == .autoRenewable, fact.environment == .production, fact.ownership != "FAMILY_SHARED",
      subscription.phase(at: instant).storeStatus == .active, let end = fact.expiresDate,
      let currency = fact.currency,
      let price = fact.priceMilliunits ?? app?.product(named: fact.productID)?.prices[currency], price > 0,
      !fact.isFreeOffer
    else { return }
    let days = end.timeIntervalSince(fact.purchaseDate) / 86_400
    let months = days / 30.4375
    milliunits[currency, default: 0] +=
      months >= 0.5 ? Double(price) / max(months.rounded(), 1) : Double(price) * 30.4375 / max(days, 1)
  }

  mutating func add(_ other: MonthlyRevenue) {
    milliunits.merge(other.milliunits, uniquingKeysWith: +)
  }

  /// Such as `EUR 3.99, USD 12.50`; empty for none.
  package var words: String {
    milliunits.sorted { $0.key < $1.key }
      .map { "\($0.key) \(String(format: "%.2f", $0.value / 1_000))" }.joined(separator: ", ")
  }
}

extension Features {
  fileprivate var byName: [String: FeatureValue] {
    Dictionary(ordered.map { ($0.name, $0.value) }) { first, _ in first }
  }
}
