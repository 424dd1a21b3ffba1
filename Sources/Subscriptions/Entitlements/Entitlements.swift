import FoundationEssentials

/// What a customer of one app may do at one instant.
public struct Entitlements: Sendable, Hashable {
  /// The tier that counts; `nil` where none is paid for.
  public var tier: String?
  /// The contract's word.
  public var status: Status
  /// Whether anything beyond the free features is open.
  public var isAccessGranted: Bool
  /// What may be done, by the app's own names.
  public var features: Features
  /// When this answer stops being true by itself; `nil` if it does not.
  public var validUntil: Date?
  /// Until when a client without network may go on; `nil` where there is nothing to go on with.
  public var offlineGraceUntil: Date?

  /// The subscription that decided, if one did.
  public var source: Subscription?
}

extension App {
  /// Decides from all that a customer has.
  ///
  /// - Parameters:
  ///   - subscriptions: the customer's subscriptions of this app, in any order.
  ///   - customer: who asks; decides whether sandbox purchases count.
  ///   - instant: now.
  public func entitlements(
    of subscriptions: [Subscription], for customer: Customer?, at instant: Date
  ) -> Entitlements {
    let counted = subscriptions.filter { counts($0, for: customer) }
    guard let best = counted.max(by: { strength($0, at: instant) < strength($1, at: instant) }) else {
      return Entitlements(
        tier: nil, status: .expired, isAccessGranted: false, features: free, validUntil: nil,
        offlineGraceUntil: nil, source: nil)
    }
    let phase = best.phase(at: instant)
    let grants = phase.status.grantsAccess
    return Entitlements(
      tier: grants ? best.tier(at: instant) : nil,
      status: phase.status,
      isAccessGranted: grants,
      features: features(of: best, in: phase, at: instant),
      validUntil: grants ? best.nextChange(after: instant) : nil,
      offlineGraceUntil: grants
        ? instant.addingTimeInterval(TimeInterval(offlineGraceDays) * 86_400) : nil,
      source: best)
  }

  /// Whether a subscription opens anything at all: its product is in the catalog, and a sandbox
  /// purchase is one of a tester.
  public func counts(_ subscription: Subscription, for customer: Customer?) -> Bool {
    guard subscription.tier != nil || subscription.preceding?.tier != nil else { return false }
    switch subscription.current.environment {
    case .production: return true
    case .sandbox: return sandboxGrants.include(customer)
    }
  }

  private func features(of subscription: Subscription, in phase: Phase, at instant: Date) -> Features {
    switch (phase.status, phase.storeStatus) {
    // Apple's own grace is access in full: Apple asks for it.
    case (.active, _), (.grace, .billingGrace), (.trial, _):
      subscription.tier(at: instant).flatMap { tiers[$0]?.features } ?? free
    case (.grace, _): grace?.features ?? free
    case (.expired, _), (.cancelled, _): free
    }
  }

  /// Of several subscriptions the strongest decides: paid access before the app's own grace before
  /// none; then the higher tier; then the one that lasts longer; then the later purchase.
  private func strength(_ subscription: Subscription, at instant: Date) -> Strength {
    let phase = subscription.phase(at: instant)
    let access =
      switch (phase.status, phase.storeStatus) {
      case (.active, _), (.grace, .billingGrace), (.trial, _): 2
      case (.grace, _): 1
      case (.expired, _), (.cancelled, _): 0
      }
    return Strength(
      access: access, rank: subscription.tier(at: instant).flatMap { tiers[$0]?.rank } ?? Int.min,
      lasts: subscription.storeAccessEnds ?? .distantFuture,
      purchased: subscription.current.purchaseDate,
      transactionID: subscription.current.originalTransactionID)
  }
}

private struct Strength: Comparable {
  var access: Int
  var rank: Int
  var lasts: Date
  var purchased: Date
  var transactionID: String

  static func < (a: Strength, b: Strength) -> Bool {
    if a.access != b.access { return a.access < b.access }
    // Without access a rank means nothing: then the story that ended last is the one to tell.
    if a.access > 0, a.rank != b.rank { return a.rank < b.rank }
    if a.lasts != b.lasts { return a.lasts < b.lasts }
    if a.purchased != b.purchased { return a.purchased < b.purchased }
    return a.transactionID < b.transactionID
  }
}
