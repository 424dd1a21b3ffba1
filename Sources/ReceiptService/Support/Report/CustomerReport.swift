import FoundationEssentials

/// What support needs to know of whoever goes by an id: who it is, what they may do, until when, why, and what happened
/// last.
public struct CustomerReport: Encodable, Sendable {
  /// The id that was asked about.
  let asked: String
  /// One for each customer and app.
  let customers: [CustomerStory]
  /// Purchases by that id that belong to nobody yet.
  let unclaimed: [PurchaseStory]
  /// The server's clock.
  let serverTime: Date

  /// Whether nothing goes by the id.
  public var isEmpty: Bool { customers.isEmpty && unclaimed.isEmpty }
}

/// A customer of one app.
struct CustomerStory: Encodable, Sendable {
  /// `user` or `device`.
  var kind: String
  var customer: String
  var bundleID: String
  var app: String
  /// What the customer's own client is told now.
  var entitlements: EntitlementsAnswer
  /// Why, in a sentence.
  var because: String
  var purchases: [PurchaseStory]
  var grants: [GrantStory]
  @Nullable var trial: TrialStory?
  /// Since when the app asks nobody for a subscription; `null` where it does.
  @Nullable var freeAccessSince: Date?
  /// The last events, in order.
  var events: [TimelineEvent]
}

/// A subscription or a lifetime purchase.
struct PurchaseStory: Encodable, Sendable {
  var originalTransactionID: String
  var transactionID: String
  var bundleID: String
  var productID: String
  @Nullable var tier: String?
  var status: String
  var storeStatus: String
  var purchaseDate: Date
  @Nullable var expiryDate: Date?
  @Nullable var gracePeriodExpiryDate: Date?
  @Nullable var revokedAt: Date?
  var environment: String
  var ownership: String
  var willRenew: Bool
  @Nullable var renewsAs: String?
  /// What decided whose it is: the words of `subscriptions.owned_because`.
  @Nullable var ownedBecause: String?
  /// Whom support took it from.
  @Nullable var takenFrom: String?
  /// The device that had it first, where this customer shares it.
  @Nullable var sharedBy: String?
  var opensSomething: Bool
  /// What a support person should know of it; `null` where there is nothing odd.
  @Nullable var note: String?
}

/// Access that was given.
struct GrantStory: Encodable, Sendable {
  var grant: String
  var tier: String
  var startsAt: Date
  @Nullable var endsAt: Date?
  var grantedBy: String
  var reason: String
  @Nullable var revokedAt: Date?
  @Nullable var revokedBy: String?
  var isOpen: Bool
}

/// The app's own free time.
struct TrialStory: Encodable, Sendable {
  var startedAt: Date
  /// `null` while the app asks nobody for a subscription: it stands still.
  @Nullable var endsAt: Date?
  var isRunning: Bool
}

/// A line of `support_timeline`.
struct TimelineEvent: Encodable, Sendable {
  var at: Date
  var event: String
  var what: String
  var reference: String
}
