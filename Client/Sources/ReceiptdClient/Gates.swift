public import Foundation

/// A number that the app's configuration sets, where null means no limit. A member of this type that the server does not send is
/// an error, and not 'no limit', as it would be with `Int?`.
public enum Limit: Sendable, Hashable, Codable, ExpressibleByIntegerLiteral {
  /// No limit.
  case unlimited
  /// At most so many.
  case count(Int)

  /// At most so many.
  public init(integerLiteral value: Int) { self = .count(value) }

  /// Reads a number or null.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    self = container.decodeNil() ? .unlimited : .count(try container.decode(Int.self))
  }

  /// Writes a number or null.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .unlimited: try container.encodeNil()
    case .count(let count): try container.encode(count)
    }
  }
}

/// A feature that a plan allows, allows with a warning, or denies.
public enum Permission: String, Sendable, Hashable, Codable {
  /// Open.
  case allowed
  /// Open, with a hint that it ends soon.
  case warning
  /// Closed.
  case denied

  /// Whether the feature is open.
  public var isOpen: Bool { self != .denied }
}

/// A gate for history: the last days are visible, older entries are kept and hidden.
public struct HistoryWindow: Sendable, Hashable {
  /// The visible days.
  public var days: Limit

  /// Creates a window of so many days.
  public init(days: Limit) { self.days = days }

  /// The oldest visible time; `nil` if all is visible.
  public func start(at now: Date) -> Date? {
    guard case .count(let count) = days else { return nil }
    return now.addingTimeInterval(-Double(max(count, 0)) * 86_400)
  }

  /// Whether an entry of this time is visible.
  public func isVisible(_ date: Date, at now: Date) -> Bool { start(at: now).map { date > $0 } ?? true }

  /// The visible entries in their order, and the number of hidden ones.
  public func split<Entry>(
    _ entries: [Entry], at now: Date, date: (Entry) -> Date
  ) -> (visible: [Entry], hidden: Int) {
    let visible = entries.filter { isVisible(date($0), at: now) }
    return (visible, entries.count - visible.count)
  }
}

/// A gate for things that a plan counts, such as paired devices or bookmarks.
public struct CountedLimit: Sendable, Hashable {
  /// How many the plan allows.
  public var limit: Limit
  /// How many there are.
  public var count: Int

  /// Creates a gate.
  public init(_ limit: Limit, count: Int) {
    self.limit = limit
    self.count = count
  }

  /// Whether the customer may add another.
  public var canAdd: Bool { remaining.map { $0 > 0 } ?? true }

  /// How many more the plan allows; `nil` for no limit.
  public var remaining: Int? {
    guard case .count(let limit) = limit else { return nil }
    return max(limit - count, 0)
  }

  /// How many of the existing ones are beyond the plan, such as after a downgrade.
  public var excess: Int {
    guard case .count(let limit) = limit else { return 0 }
    return max(count - max(limit, 0), 0)
  }

  /// What to show where the customer may not add another; `nil` if one may be added.
  public func reason<Features>(_ entitlement: Entitlement<Features>) -> PaywallReason? {
    canAdd ? nil : entitlement.isAccessGranted ? .limitReached : PaywallReason(entitlement)
  }
}

/// A gate for an ordered work: the first parts are open, such as surah 1, or all.
public struct OrderedAccess: Sendable, Hashable {
  /// How many parts are open.
  public var open: Limit

  /// Creates a gate.
  public init(open: Limit) { self.open = open }

  /// Whether a part is open; the first one has the number 1.
  public func isOpen(_ part: Int) -> Bool {
    guard case .count(let open) = open else { return part >= 1 }
    return (1...max(open, 1)).contains(part) && open >= 1
  }

  /// The number of closed parts of so many.
  public func closed(of total: Int) -> Int {
    guard case .count(let open) = open else { return 0 }
    return max(total - max(open, 0), 0)
  }
}

/// What remains of a trial or a grace period.
public struct TimeLeft: Sendable, Hashable {
  /// ``EntitlementStatus/trial`` or ``EntitlementStatus/grace``.
  public let status: EntitlementStatus
  /// The days that remain, the current one included: 1 on the last day, 0 after the end.
  public let days: Int

  /// `nil` outside of a trial and a grace period, and where it has no end.
  public init?<Features>(_ entitlement: Entitlement<Features>, at now: Date) {
    guard [.trial, .grace].contains(entitlement.status), let end = entitlement.validUntil else { return nil }
    status = entitlement.status
    days = max(0, Int((end.timeIntervalSince(now) / 86_400).rounded(.up)))
  }
}

/// The reason to show on a paywall.
public enum PaywallReason: Sendable, Hashable {
  /// Nothing is known yet, such as at a first launch without a network: do not say that something ended.
  case unknown
  /// The customer never had access.
  case new
  /// A trial, a purchase or a grant has ended.
  case ended
  /// The purchase was refunded or revoked.
  case refunded
  /// A child's device whose parent has no access.
  case parentWithoutAccess
  /// A child's device beyond the parent's plan.
  case parentLimit
  /// The customer has access, and the plan has no room for more.
  case limitReached

  /// `nil` where access is granted.
  public init?<Features>(_ entitlement: Entitlement<Features>) {
    if entitlement.isAccessGranted { return nil }
    if let pairing = entitlement.pairing, !pairing.isActive {
      self = pairing.reason == "device_limit" ? .parentLimit : .parentWithoutAccess
    } else if entitlement.source == .none {
      self = .unknown
    } else if entitlement.status == .cancelled {
      self = .refunded
    } else {
      self = entitlement.everHadAccess ? .ended : .new
    }
  }
}
