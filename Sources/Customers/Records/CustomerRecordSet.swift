import Foundation
import Postgres
import Subscriptions
import Work

/// One customer's purchases, grants and trials of all apps, from the database.
package struct CustomerRecordSet: Sendable {
  package var subscriptions: [StoredSubscription] = []
  /// Purchases that other devices own and share with this one.
  package var shared: [StoredSubscription] = []
  /// By the app's bundle id.
  package var grants: [String: [Grant]] = [:]
  /// The apps of grants that were revoked.
  package var revokedGrants: Set<String> = []
  /// By the app's bundle id.
  package var trials: [String: [Trial]] = [:]
  /// The apps in which another device named this one as its child's. Read only where `parentsOf` names the app.
  package var appsOfParents: Set<String> = []

  /// Whether the customer has a record of this app.
  package func has(of app: App) -> Bool {
    !purchases(of: app).isEmpty || grants[app.bundleID] != nil
      || trials[app.bundleID] != nil
  }

  /// The customer's own purchases of one app, and those shared with the customer if the app shares purchases.
  package func purchases(of app: App) -> [StoredSubscription] {
    (subscriptions + (app.sharesPurchases ? shared : [])).filter { $0.bundleID == app.bundleID }
  }

  /// The customer's records of one app.
  ///
  /// - Parameter instant: decides whether a sandbox trial counts.
  package func customerRecords(
    of app: App, for customer: Customer, freeAccess: FreeAccess, at instant: Date
  ) -> CustomerRecords {
    CustomerRecords(
      subscriptions: purchases(of: app).map { $0.asRecord(for: customer) },
      trial: app.trial(among: trials[app.bundleID] ?? [], for: customer, at: instant),
      grants: grants[app.bundleID] ?? [], hadGrant: revokedGrants.contains(app.bundleID),
      freeAccess: freeAccess)
  }
}

/// The records of several customers, read together, and the apps' periods of free access.
package struct RecordsByCustomer: Sendable {
  package var customers: [Customer: CustomerRecordSet] = [:]
  package var freeAccessByApp = FreeAccessByApp()

  package subscript(customer: Customer) -> CustomerRecordSet { customers[customer] ?? CustomerRecordSet() }

  /// Adds a purchase to the records of its owner and of the devices that share it.
  package mutating func add(_ stored: StoredSubscription) {
    let owner = stored.owner?.customer
    if let owner { customers[owner, default: .init()].subscriptions.append(stored) }
    for sharer in stored.customers where sharer != owner {
      customers[sharer, default: .init()].shared.append(stored)
    }
  }

  /// One customer's records of one app.
  package func customerRecords(of customer: Customer, in app: App, at instant: Date) -> CustomerRecords {
    self[customer].customerRecords(
      of: app, for: customer, freeAccess: freeAccessByApp[app], at: instant)
  }
}

/// The periods in which each app was open to everyone.
package struct FreeAccessByApp: Sendable {
  private var periods: [String: [FreeAccess.Period]] = [:]

  package init() {}

  /// - Parameter rows: of ``select``.
  package init(_ rows: some Sequence<Row>) throws {
    for row in rows {
      periods[try row.decode("bundle_id"), default: []].append(
        FreeAccess.Period(startsAt: try row.decode("starts_at"), endsAt: try row.decode("ends_at")))
    }
  }

  package subscript(app: App) -> FreeAccess { periods[app.bundleID].map { FreeAccess($0) } ?? .never }
}

/// The reads of customers' records: `subscriptions`, `purchase_devices`, `grants`, `trials` and `free_access`.
package struct CustomerRecordReads {
  private let subscriptions: Statements.Handle<Row>
  private let grants: Statements.Handle<Row>
  private let trials: Statements.Handle<Row>?
  private let parents: Statements.Handle<Row>?

  /// Adds the statements to the others of a round trip.
  /// - Parameters:
  ///   - known: purchases that need not be read.
  ///   - sharing: whether to read purchases that are shared with the devices.
  ///   - bundleIDs: the apps for which to read whether a device has a parent.
  package init(
    users: [UUID] = [], devices: [String] = [], except known: [String] = [], sharing: Bool = true,
    parentsOf bundleIDs: [String] = [], in reads: inout Statements
  ) {
    subscriptions = reads.add(
      SubscriptionRows.select(users: users, devices: devices, except: known, sharing: sharing))
    grants = reads.add(Self.grants(users: users, devices: devices))
    trials = devices.isEmpty ? nil : reads.add(Self.trials(devices))
    parents =
      devices.isEmpty || bundleIDs.isEmpty
      ? nil : reads.add(HouseholdRows.appsOfParents(of: devices, among: bundleIDs))
  }

  /// The records in the answers.
  package func records(in answers: Statements.Answers, _ freeAccess: FreeAccessByApp) throws
    -> RecordsByCustomer
  {
    var records = RecordsByCustomer()
    records.freeAccessByApp = freeAccess
    // A purchase has a row for each device that shares it, and a row is expensive to decode.
    var sharedPurchases: [String: StoredSubscription] = [:]
    for row in try answers[subscriptions] {
      if let sharer = try SubscriptionRows.sharer(row) {
        let id = try row.decode("original_transaction_id", as: String.self)
        var stored = try sharedPurchases[id] ?? SubscriptionRows.decode(row)
        sharedPurchases[id] = stored
        if !sharer.isProven { stored.isUnconfirmed = true }
        records.customers[sharer.customer, default: .init()].shared.append(stored)
        continue
      }
      let stored = try SubscriptionRows.decode(row)
      guard let owner = stored.owner?.customer else { continue }
      records.customers[owner, default: .init()].subscriptions.append(stored)
    }
    for row in try answers[grants] {
      guard let customer = try Customer(row) else { continue }
      if try row.decode("is_revoked", as: Bool.self) {
        records.customers[customer, default: .init()].revokedGrants.insert(try row.decode("bundle_id"))
        continue
      }
      records.customers[customer, default: .init()]
        .grants[try row.decode("bundle_id"), default: []].append(try Grant(row))
    }
    for row in try answers[trials] {
      records.customers[.device(try row.decode("device_id")), default: .init()]
        .trials[try row.decode("bundle_id"), default: []].append(try Trial(row))
    }
    for row in try answers[parents] {
      records.customers[.device(try row.decode("child_device_id")), default: .init()]
        .appsOfParents.insert(try row.decode("bundle_id"))
    }
    return records
  }

  private static func grants(users: [UUID], devices: [String]) -> Query {
    // Two index scans: an OR over both columns would need a bitmap scan, which LookupPlans disables.
    var ways: [Query] = []
    if !users.isEmpty || devices.isEmpty {
      ways.append("SELECT \(unescaped: grantColumns) WHERE user_id = ANY(\(users))")
    }
    if !devices.isEmpty {
      ways.append(
        "SELECT \(unescaped: grantColumns) WHERE device_id = ANY(\(devices))")
    }
    return .union(all: ways)
  }

  private static let grantColumns: StaticString =
    "user_id, device_id, bundle_id, id, tier, starts_at, ends_at, environment, revoked_at IS NOT NULL AS is_revoked FROM grants"

  private static func trials(_ devices: [String]) -> Query {
    """
    SELECT own.device_id, own.bundle_id, original.started_at, original.ends_at, own.environment
    FROM trials own JOIN trials original ON original.id = coalesce(own.continues, own.id)
    WHERE own.device_id = ANY(\(devices))
    """
  }
}

extension FreeAccessByApp {
  /// The periods of free access of all apps; there are few.
  package static let select: Query = "SELECT bundle_id, starts_at, ends_at FROM free_access"
}

/// The reads of customers' records, with the planner's settings and the apps' periods of free access. The ledger needs
/// ``CustomerRecordReads`` alone, because its first statements have read the other two.
package struct AllCustomerRecordReads {
  private let records: CustomerRecordReads
  private let freeAccess: Statements.Handle<Row>

  package init(users: [UUID] = [], devices: [String] = [], in reads: inout Statements) {
    reads.add(LookupPlans.useIndexScans)
    freeAccess = reads.add(FreeAccessByApp.select)
    records = CustomerRecordReads(users: users, devices: devices, in: &reads)
  }

  package func records(in answers: Statements.Answers) throws -> RecordsByCustomer {
    try records.records(in: answers, FreeAccessByApp(answers[freeAccess]))
  }
}

extension PostgresConnection {
  /// Reads the records of these customers.
  package func customerRecords(users: [UUID] = [], devices: [String] = []) async throws -> RecordsByCustomer {
    var reads = Statements()
    let records = AllCustomerRecordReads(users: users, devices: devices, in: &reads)
    return try records.records(in: await answers(to: reads))
  }
}

extension PostgresPool {
  /// Reads the records of these customers.
  package func customerRecords(users: [UUID] = [], devices: [String] = []) async throws -> RecordsByCustomer {
    try await withConnection { try await $0.customerRecords(users: users, devices: devices) }
  }
}
