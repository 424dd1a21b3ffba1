import FoundationEssentials

/// What a customer of one app may do at one instant.
public struct Entitlements: Sendable, Hashable {
  /// The tier that counts; `nil` where none is open.
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
  /// What decided; `nil` where the customer has and had nothing.
  public var source: Source?

  /// What an answer was decided by.
  public enum Source: Sendable, Hashable {
    /// Something that was bought, open or over.
    case subscription(Subscription)
    /// Something that was given.
    case grant(Grant)
    /// The app's own free time, or its end.
    case trial(Trial)
    /// The app asks nobody for a subscription now.
    case freeTime
  }
}

extension App {
  /// Decides from all that a customer has.
  ///
  /// - Parameters:
  ///   - holdings: what the customer has of this app.
  ///   - customer: who asks; decides whether sandbox purchases count.
  ///   - instant: now.
  public func entitlements(
    of holdings: Holdings, for customer: Customer?, at instant: Date
  ) -> Entitlements {
    // What is to come by itself: a grant that begins later, free time with a date.
    let grants = holdings.grants.filter { counts($0, for: customer) }
    let beginnings = grants.map(\.startsAt) + [holdings.freeTime.nextChange(after: instant)]
    let nextBeginning = beginnings.compactMap(\.self).filter { $0 > instant }.min()
    let openings = openings(of: holdings, for: customer, at: instant)
    guard let best = openings.max(by: { $0.isWeaker(than: $1) }) else {
      return Entitlements(
        tier: nil, status: .expired, isAccessGranted: false, features: free, validUntil: nextBeginning,
        offlineGraceUntil: nil, source: nil)
    }
    let isOpen = best.access > .none
    let end = isOpen ? best.changesAt : nil
    return Entitlements(
      tier: isOpen ? best.tier : nil,
      status: best.status,
      isAccessGranted: isOpen,
      features: best.features,
      validUntil: [end, nextBeginning].compactMap(\.self).min(),
      offlineGraceUntil: isOpen
        ? instant.addingTimeInterval(TimeInterval(offlineGraceDays) * 86_400) : nil,
      source: best.source)
  }

  /// Whether a subscription opens anything at all at `instant`: its product is in the catalog, and a sandbox
  /// purchase is one of a tester.
  public func counts(_ subscription: Subscription, for customer: Customer?, at instant: Date) -> Bool {
    guard subscription.tier(at: instant) != nil else { return false }
    return counts(subscription.current.environment, for: customer)
  }

  /// Whether a grant opens anything: its tier is in the catalog, and one for an app transaction of the sandbox is a
  /// tester's.
  public func counts(_ grant: Grant, for customer: Customer?) -> Bool {
    tiers[grant.tier] != nil && counts(grant.environment, for: customer)
  }

  /// Whether signed data of an environment opens anything for a customer: that of the sandbox does for testers.
  public func counts(_ environment: StoreEnvironment, for customer: Customer?) -> Bool {
    switch environment {
    case .production: true
    case .sandbox: sandboxGrants.include(customer)
    }
  }

  /// The trial that decides, where a device has one of each environment: one that counts, then the one that ends last.
  public func trial(among trials: [Trial], for customer: Customer?) -> Trial? {
    let counted = trials.filter { counts($0.environment, for: customer) }
    return (counted.isEmpty ? trials : counted).max { $0.endsAt < $1.endsAt }
  }
}
