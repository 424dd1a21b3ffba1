import FoundationEssentials
import Subscriptions

/// One customer's purchases, grants and trials of all apps, from the database.
struct CustomerRecordSet: Sendable {
  var subscriptions: [StoredSubscription] = []
  /// Purchases that other devices own and share with this one.
  var shared: [StoredSubscription] = []
  /// By the app's bundle id.
  var grants: [String: [Grant]] = [:]
  /// By the app's bundle id.
  var trials: [String: [Trial]] = [:]

  /// Whether the customer has a record of this app.
  func has(of app: App) -> Bool {
    !purchases(of: app).isEmpty || grants[app.bundleID] != nil
      || trials[app.bundleID] != nil
  }

  /// The customer's own purchases of one app, and those shared with the customer if the app shares purchases.
  func purchases(of app: App) -> [StoredSubscription] {
    (subscriptions + (app.sharesPurchases ? shared : [])).filter { $0.bundleID == app.bundleID }
  }

  /// The customer's records of one app.
  ///
  /// - Parameter instant: decides whether a sandbox trial counts.
  func customerRecords(
    of app: App, for customer: Customer, freeAccess: FreeAccess, at instant: Date
  ) -> CustomerRecords {
    CustomerRecords(
      subscriptions: purchases(of: app).map(\.subscription),
      trial: app.trial(among: trials[app.bundleID] ?? [], for: customer, at: instant),
      grants: grants[app.bundleID] ?? [], freeAccess: freeAccess)
  }
}
