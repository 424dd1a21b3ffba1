import FoundationEssentials

/// What support needs to know of whoever goes by an id: who it is, what they may do, until when, why, and what happened
/// last.
public struct CustomerReport: Sendable {
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
struct CustomerStory: Sendable {
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
  var trial: TrialStory?
  /// Since when the app asks nobody for a subscription; `null` where it does.
  var freeAccessSince: Date?
  /// The last events, in order.
  var events: [TimelineEvent]
}

/// A subscription or a lifetime purchase.
struct PurchaseStory: Sendable {
  var originalTransactionID: String
  var transactionID: String
  var bundleID: String
  var productID: String
  var tier: String?
  var status: String
  var storeStatus: String
  var purchaseDate: Date
  var expiryDate: Date?
  var gracePeriodExpiryDate: Date?
  var revokedAt: Date?
  var environment: String
  var ownership: String
  var willRenew: Bool
  var renewsAs: String?
  /// What decided whose it is: the words of `subscriptions.owned_because`.
  var ownedBecause: String?
  /// Whom support took it from.
  var takenFrom: String?
  /// The device that had it first, where this customer shares it.
  var sharedBy: String?
  var opensSomething: Bool
  /// What a support person should know of it; `null` where there is nothing odd.
  var note: String?
}

/// Access that was given.
struct GrantStory: Sendable {
  var grant: String
  var tier: String
  var startsAt: Date
  var endsAt: Date?
  var grantedBy: String
  var reason: String
  var revokedAt: Date?
  var revokedBy: String?
  var isOpen: Bool
  /// Why it opens nothing although it is not over; `null` where nothing is odd.
  var note: String?
}

/// The app's own free time.
struct TrialStory: Sendable {
  var startedAt: Date
  /// `null` while the app asks nobody for a subscription: it stands still.
  var endsAt: Date?
  var isRunning: Bool
  /// Why it opens nothing; `null` where nothing is odd.
  var note: String?
}

/// A line of `support_timeline`.
struct TimelineEvent: Sendable {
  var at: Date
  var event: String
  var what: String
  var reference: String
}
