import Foundation

/// The purchases, trial and grants of a customer of one app: the input of the entitlements.
public struct CustomerRecords: Sendable, Hashable {
  /// The purchases in any order.
  public var subscriptions: [Subscription]
  /// The app's own trial, if the customer has started it.
  public var trial: Trial?
  /// The grants, active or ended.
  public var grants: [Grant]
  /// The app's periods of free access.
  public var freeAccess: FreeAccess

  /// Records from their parts.
  public init(
    subscriptions: [Subscription] = [], trial: Trial? = nil, grants: [Grant] = [],
    freeAccess: FreeAccess = .never
  ) {
    self.subscriptions = subscriptions
    self.trial = trial
    self.grants = grants
    self.freeAccess = freeAccess
  }

  /// Whether any of the records is of the sandbox.
  var isOfSandbox: Bool {
    subscriptions.contains { $0.current.environment == .sandbox } || trial?.environment == .sandbox
      || grants.contains { $0.environment == .sandbox }
  }
}
