import FoundationEssentials

/// One reason for what a customer may do at one instant: a purchase, a grant, the trial, free time.
///
/// Of several the strongest decides: full access before the app's own grace before none; then the higher
/// tier; then the one that lasts longer; then the later one.
struct Opening {
  enum Access: Int, Comparable {
    case none, ownGrace, full
    static func < (a: Access, b: Access) -> Bool { a.rawValue < b.rawValue }
  }

  var access: Access
  var tier: String?
  /// The tier's rank in the catalog.
  var rank: Int
  var status: Status
  var features: Features
  /// When it says something else by itself; `nil`: never, as far as is known.
  var changesAt: Date?
  /// The end of it, for comparing.
  var lasts: Date
  /// The beginning of it, for comparing.
  var began: Date
  /// For comparing what is alike in everything else.
  var name: String
  var source: Entitlements.Source

  func isWeaker(than other: Opening) -> Bool {
    if access != other.access { return access < other.access }
    // Without access a rank means nothing: then the story that ended last is the one to tell.
    if access > .none, rank != other.rank { return rank < other.rank }
    if lasts != other.lasts { return lasts < other.lasts }
    if began != other.began { return began < other.began }
    return name < other.name
  }
}

extension App {
  /// Every reason, in no order.
  func openings(of holdings: Holdings, for customer: Customer?, at instant: Date) -> [Opening] {
    let bought = holdings.subscriptions.filter { counts($0, for: customer, at: instant) }
    var openings = bought.map { opening(of: $0, at: instant) }
    openings += holdings.grants.filter { $0.isOpen(at: instant) && counts($0, for: customer) }.map(opening)
    // A trial is for who has not bought: after that its rest is not owed.
    if bought.isEmpty, let trial = holdings.trial, counts(trial.environment, for: customer) {
      openings.append(opening(of: trial, honoring: holdings.freeTime, at: instant))
    }
    if holdings.freeTime.isOn(at: instant) {
      openings.append(freeOpening(until: holdings.freeTime.nextChange(after: instant)))
    }
    return openings
  }

  private func opening(of subscription: Subscription, at instant: Date) -> Opening {
    let phase = subscription.phase(at: instant)
    let tier = subscription.tier(at: instant)
    let (access, features): (Opening.Access, Features) =
      switch (phase.status, phase.storeStatus) {
      // Apple's own grace is access in full: Apple asks for it.
      case (.active, _), (.grace, .billingGrace), (.trial, _):
        (.full, tier.flatMap { tiers[$0]?.features } ?? free)
      case (.grace, _): (.ownGrace, grace?.features ?? free)
      case (.expired, _), (.cancelled, _): (.none, free)
      }
    var lasts = subscription.storeAccessEnds ?? .distantFuture
    // What was taken back ended then, however long it was paid for.
    if access == .none, let revoked = subscription.current.revocationDate { lasts = min(lasts, revoked) }
    return Opening(
      access: access, tier: tier, rank: rank(tier), status: phase.status, features: features,
      changesAt: subscription.nextChange(after: instant), lasts: lasts,
      began: subscription.current.purchaseDate,
      name: subscription.current.originalTransactionID, source: .subscription(subscription))
  }

  private func opening(of grant: Grant) -> Opening {
    Opening(
      access: .full, tier: grant.tier, rank: rank(grant.tier), status: .active,
      features: tiers[grant.tier]?.features ?? free, changesAt: grant.endsAt,
      lasts: grant.endsAt ?? .distantFuture, began: grant.startsAt, name: grant.id.uuidString,
      source: .grant(grant))
  }

  private func opening(of trial: Trial, honoring freeTime: FreeTime, at instant: Date) -> Opening {
    let end = trial.end(honoring: freeTime)
    var opening = Opening(
      access: .full, rank: highestTier?.rank ?? Int.min, status: .trial,
      features: self.trial?.features ?? free,
      changesAt: end, lasts: end ?? .distantFuture, began: trial.startedAt, name: "trial",
      source: .trial(trial))
    guard let end, end <= instant else { return opening }
    let graceEnd = freeTime.end(of: grace?.duration ?? 0, from: end)
    let isOver = graceEnd.map { $0 <= instant } ?? false
    opening.access = isOver ? .none : .ownGrace
    opening.status = isOver ? .expired : .grace
    opening.features = isOver ? free : grace?.features ?? free
    opening.changesAt = isOver ? nil : graceEnd
    return opening
  }

  /// While the app asks nobody, everybody has the highest tier.
  private func freeOpening(until end: Date?) -> Opening {
    Opening(
      access: .full, tier: highestTier?.name, rank: highestTier?.rank ?? Int.min, status: .active,
      features: highestTier?.features ?? free, changesAt: end, lasts: .distantPast, began: .distantPast,
      name: "free", source: .freeTime)
  }

  private var highestTier: Tier? {
    tiers.values.max { ($0.rank, $0.name) < ($1.rank, $1.name) }
  }

  private func rank(_ tier: String?) -> Int { tier.flatMap { tiers[$0]?.rank } ?? Int.min }
}
