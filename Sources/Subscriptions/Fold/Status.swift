import FoundationEssentials

/// What a client is told: the contract's `status`.
public enum Status: String, Sendable, Hashable, CaseIterable {
  /// The app's own free time runs; only for customers without a subscription.
  case trial
  /// Paid for, or bought for good.
  case active
  /// The paid time is over, access goes on for a while.
  case grace
  /// Over.
  case expired
  /// Refunded or revoked.
  case cancelled

  /// The first three grant access.
  public var grantsAccess: Bool { self == .trial || self == .active || self == .grace }
}

/// What the App Store would say: the contract's `storeStatus`. Apple's numbers 1 to 5.
public enum StoreStatus: String, Sendable, Hashable, CaseIterable {
  /// 1: the paid time runs.
  case active
  /// 2: it ended and Apple does not retry.
  case expired
  /// 3: it ended and Apple goes on trying to charge.
  case billingRetry
  /// 4: it ended, Apple goes on trying, and asks for access meanwhile.
  case billingGrace
  /// 5: refunded, or taken back from the family.
  case revoked
}

/// A stretch of a subscription's life in which no status changes.
public struct Phase: Sendable, Hashable {
  /// The first instant of it; `nil` for the first phase, which has always been.
  public var startsAt: Date?
  /// What a client is told in it.
  public var status: Status
  /// What the App Store would say in it.
  public var storeStatus: StoreStatus

  /// Creates a phase.
  public init(startsAt: Date?, status: Status, storeStatus: StoreStatus) {
    self.startsAt = startsAt
    self.status = status
    self.storeStatus = storeStatus
  }
}
