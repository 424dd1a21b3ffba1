import FoundationEssentials

/// Everything that a customer has of one app, bought or given: what an answer is decided from.
public struct Holdings: Sendable, Hashable {
  /// What was bought, in any order.
  public var subscriptions: [Subscription]
  /// The app's own free time, if the customer ever started it.
  public var trial: Trial?
  /// What was given by support, over or not.
  public var grants: [Grant]
  /// When the app asked nobody for a subscription.
  public var freeTime: FreeTime

  /// Nothing, unless said otherwise.
  public init(
    subscriptions: [Subscription] = [], trial: Trial? = nil, grants: [Grant] = [],
    freeTime: FreeTime = .never
  ) {
    self.subscriptions = subscriptions
    self.trial = trial
    self.grants = grants
    self.freeTime = freeTime
  }
}
