import FoundationEssentials
import Subscriptions

/// Everything that one customer has, of all apps, as the database has it.
struct CustomerHoldings: Sendable {
  var subscriptions: [StoredSubscription] = []
  /// What other devices own and share with this one.
  var shared: [StoredSubscription] = []
  /// By the app's bundle id.
  var grants: [String: [Grant]] = [:]
  /// By the app's bundle id.
  var trials: [String: [Trial]] = [:]

  /// Whether there is anything of this app.
  func has(of app: App) -> Bool {
    !purchases(of: app).isEmpty || grants[app.bundleID] != nil
      || trials[app.bundleID] != nil
  }

  /// The purchases of one app: the customer's own, and those that are shared, if the app shares any.
  func purchases(of app: App) -> [StoredSubscription] {
    (subscriptions + (app.sharesPurchases ? shared : [])).filter { $0.bundleID == app.bundleID }
  }

  /// What the customer has of one app.
  func holdings(of app: App, for customer: Customer, freeTime: FreeTime) -> Holdings {
    Holdings(
      subscriptions: purchases(of: app).map(\.subscription),
      trial: app.trial(among: trials[app.bundleID] ?? [], for: customer), grants: grants[app.bundleID] ?? [],
      freeTime: freeTime)
  }
}

/// What several customers have, read together, and when each app asked nobody for a subscription.
struct HoldingsByCustomer: Sendable {
  var customers: [Customer: CustomerHoldings] = [:]
  var freeTimes = FreeTimes()

  subscript(customer: Customer) -> CustomerHoldings { customers[customer] ?? CustomerHoldings() }

  /// Adds a purchase, as its row tells it, to what its owner and those who share it have.
  mutating func add(_ stored: StoredSubscription) {
    let owner = stored.owner?.customer
    if let owner { customers[owner, default: .init()].subscriptions.append(stored) }
    for sharer in stored.customers where sharer != owner {
      customers[sharer, default: .init()].shared.append(stored)
    }
  }

  /// What one customer has of one app.
  func holdings(of customer: Customer, in app: App) -> Holdings {
    self[customer].holdings(of: app, for: customer, freeTime: freeTimes[app])
  }
}

/// When each app asked nobody for a subscription.
struct FreeTimes: Sendable {
  private var spells: [String: [FreeTime.Spell]] = [:]

  mutating func add(_ spell: FreeTime.Spell, of bundleID: String) {
    spells[bundleID, default: []].append(spell)
  }

  subscript(app: App) -> FreeTime { spells[app.bundleID].map { FreeTime($0) } ?? .never }
}
