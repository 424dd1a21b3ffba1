import Foundation

/// The value of `subscription.status` in responses. `GracePeriods.swift` decides it for subscriptions, `EntitlementCandidate.swift` for
/// trials, grants and free access.
public enum Status: String, Sendable, Hashable, CaseIterable {
  /// The app's own trial; only for customers without a subscription.
  case trial
  /// Paid, or bought for lifetime.
  case active
  /// The paid time has ended, and access continues for a limited time.
  case grace
  /// Ended.
  case expired
  /// Refunded or revoked.
  case cancelled

  /// Whether the status gives access.
  public var grantsAccess: Bool { self == .trial || self == .active || self == .grace }
}

/// The value of `storeStatus` in responses. Apple's numbers 1 to 5.
public enum StoreStatus: String, Sendable, Hashable, CaseIterable {
  /// 1: paid.
  case active
  /// 2: ended, without billing retry.
  case expired
  /// 3: ended, with billing retry.
  case billingRetry
  /// 4: ended, with billing retry and billing grace.
  case billingGrace
  /// 5: refunded, or revoked from Family Sharing.
  case revoked
}

/// A period of a subscription with constant status.
public struct Phase: Sendable, Hashable {
  /// The first instant; nil for the first phase.
  public var startsAt: Date?
  /// The status for clients.
  public var status: Status
  /// The status of the App Store.
  public var storeStatus: StoreStatus

  /// Creates a phase.
  public init(startsAt: Date?, status: Status, storeStatus: StoreStatus) {
    self.startsAt = startsAt
    self.status = status
    self.storeStatus = storeStatus
  }
}
