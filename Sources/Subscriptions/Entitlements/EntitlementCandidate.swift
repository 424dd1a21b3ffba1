import Foundation

/// A possible source of a customer's entitlements at one instant: a purchase, a grant, the trial, or free access.
///
/// The strongest candidate decides. Full access is stronger than the app's own grace period, which is stronger than no
/// access. Then the higher tier, the later end and the later start decide. A trial is as strong as the highest tier,
/// and yields to a source that opens that tier: its features are the app's own choice, and may be fewer.
struct EntitlementCandidate {
  enum Access: Int, Comparable, Sendable {
    case none, ownGrace, full
    static func < (a: Access, b: Access) -> Bool { a.rawValue < b.rawValue }
  }

  /// What decides before the dates do, also between a child's device and its parent's.
  struct Strength: Comparable, Hashable {
    let access: Access
    /// Without access the rank does not count: the source that ended last decides.
    private let rank: Int
    /// `false` for a trial with full access, which has no tier.
    private let opensTier: Bool

    /// No access.
    init() { self.init(.none, rank: .min, hasTier: false) }

    init(_ access: Access, rank: Int, hasTier: Bool) {
      self.access = access
      self.rank = access > .none ? rank : .min
      opensTier = access != .full || hasTier
    }

    static func < (a: Strength, b: Strength) -> Bool {
      if a.access != b.access { return a.access < b.access }
      if a.rank != b.rank { return a.rank < b.rank }
      return !a.opensTier && b.opensTier
    }
  }

  var access: Access
  var tier: String?
  /// The tier's rank in the catalog.
  var rank: Int
  var status: Status
  var features: Features
  /// The next change without new facts; nil for none.
  var changesAt: Date?
  /// The end, for the comparison.
  var lasts: Date
  /// The end of the paid time with these features, where a weaker product follows that was charged ahead.
  var weakensAt: Date?
  /// The start, for the comparison.
  var began: Date
  /// A tie-breaker.
  var name: String
  var source: Entitlements.Source

  /// Whether it is a grant, or a purchase that the customer proved and that does not wait for the App Store's answer.
  var isConfirmed: Bool {
    switch source {
    case .subscription(let subscription): !subscription.isUnconfirmed
    case .grant: true
    case .trial, .freeAccess: false
    }
  }

  /// Whether the App Store's production signed the purchase or app transaction behind it. Free access has none.
  var isOfProduction: Bool {
    switch source {
    case .subscription(let subscription): subscription.current.environment == .production
    case .grant(let grant): grant.environment == .production
    case .trial(let trial): trial.environment == .production
    case .freeAccess: true
    }
  }

  var strength: Strength { Strength(access, rank: rank, hasTier: tier != nil) }

  func isWeaker(than other: EntitlementCandidate) -> Bool {
    if strength != other.strength { return strength < other.strength }
    if lasts != other.lasts { return lasts < other.lasts }
    if began != other.began { return began < other.began }
    return name < other.name
  }
}

extension App {
  /// All candidates, in no order.
  func candidates(of customerRecords: CustomerRecords, for customer: Customer?, at instant: Date)
    -> [EntitlementCandidate]
  {
    let bought = customerRecords.subscriptions.filter { counts($0, for: customer, at: instant) }
    var candidates = bought.map { candidate(of: $0, at: instant) }
    candidates += customerRecords.grants.filter {
      $0.isOpen(at: instant) && counts($0, for: customer, at: instant)
    }
    .map(candidate)
    // A trial ends with the first purchase.
    if bought.isEmpty, let trial = customerRecords.trial,
      counts(trial.environment, for: customer, at: instant)
    {
      candidates.append(candidate(of: trial, honoring: customerRecords.freeAccess, at: instant))
    }
    if customerRecords.freeAccess.isOn(at: instant) {
      candidates.append(freeAccessCandidate(until: customerRecords.freeAccess.nextChange(after: instant)))
    }
    return candidates
  }

  private func candidate(of subscription: Subscription, at instant: Date) -> EntitlementCandidate {
    let phase = subscription.phase(at: instant)
    let tier = subscription.tier(at: instant)
    let (access, features): (EntitlementCandidate.Access, Features) =
      switch (phase.status, phase.storeStatus) {
      // Apple requires full access during billing grace.
      case (.active, _), (.grace, .billingGrace), (.trial, _):
        (.full, tier.flatMap { tiers[$0]?.features } ?? free)
      case (.grace, _): (.ownGrace, grace?.features ?? free)
      case (.expired, _), (.cancelled, _): (.none, free)
      }
    var lasts = subscription.storeAccessEnds ?? .distantFuture
    // A revoked purchase ended with the revocation.
    if access == .none, let revoked = subscription.current.revocationDate { lasts = min(lasts, revoked) }
    let isWeakening = subscription.preceding(at: instant) != nil && rank(subscription.tier) < rank(tier)
    return EntitlementCandidate(
      access: access, tier: tier, rank: rank(tier), status: phase.status, features: features,
      changesAt: subscription.nextChange(after: instant), lasts: lasts,
      weakensAt: isWeakening ? subscription.current.purchaseDate : nil,
      began: subscription.current.purchaseDate,
      name: subscription.current.originalTransactionID, source: .subscription(subscription))
  }

  private func candidate(of grant: Grant) -> EntitlementCandidate {
    EntitlementCandidate(
      access: .full, tier: grant.tier, rank: rank(grant.tier), status: .active,
      features: tiers[grant.tier]?.features ?? free, changesAt: grant.endsAt,
      lasts: grant.endsAt ?? .distantFuture, began: grant.startsAt, name: grant.id.uuidString,
      source: .grant(grant))
  }

  private func candidate(of trial: Trial, honoring freeAccess: FreeAccess, at instant: Date)
    -> EntitlementCandidate
  {
    let end = trial.end(honoring: freeAccess)
    var candidate = EntitlementCandidate(
      access: .full, rank: highestTier?.rank ?? Int.min, status: .trial,
      features: self.trial?.features ?? free,
      changesAt: end, lasts: end ?? .distantFuture, began: trial.startedAt, name: "trial",
      source: .trial(trial))
    guard let end, end <= instant else { return candidate }
    let graceEnd = freeAccess.end(of: grace?.duration ?? 0, from: end)
    let isOver = graceEnd.map { $0 <= instant } ?? false
    candidate.access = isOver ? .none : .ownGrace
    candidate.status = isOver ? .expired : .grace
    candidate.features = isOver ? free : grace?.features ?? free
    candidate.changesAt = isOver ? nil : graceEnd
    return candidate
  }

  /// During free access every customer has the highest tier.
  private func freeAccessCandidate(until end: Date?) -> EntitlementCandidate {
    EntitlementCandidate(
      access: .full, tier: highestTier?.name, rank: highestTier?.rank ?? Int.min, status: .active,
      features: highestTier?.features ?? free, changesAt: end, lasts: .distantPast, began: .distantPast,
      name: "free", source: .freeAccess)
  }

  private var highestTier: Tier? {
    tiers.values.max { ($0.rank, $0.name) < ($1.rank, $1.name) }
  }

  private func rank(_ tier: String?) -> Int { tier.flatMap { tiers[$0]?.rank } ?? Int.min }
}
