import Configuration
import Customers
import Foundation
import Ledger
import Postgres
import Subscriptions
import Work

/// Compares what the customers have with what they would have under another configuration. It writes nothing.
///
/// A customer's purchases are folded again from the signed facts, by the same code that folds them for the ledger.
/// Children's devices follow their parents: they are counted with them, and not compared by themselves.
package struct WhatIf: Sendable {
  let current: AppCatalog
  let other: AppCatalog
  let pool: PostgresPool

  package init(current: AppCatalog, other: AppCatalog, pool: PostgresPool) {
    self.current = current
    self.other = other
    self.pool = pool
  }

  /// The customers whose records are read together.
  private static let batch = 500
  /// The batches that are compared at a time.
  private static let width = 4

  /// A customer who would notice.
  package struct Finding: Sendable {
    package let customer: Customer
    package let bundleID: String
    package let change: AccessChange
    package let before: Entitlements
    package let after: Entitlements
    package let revenue: MonthlyRevenue
    /// How many children's devices the customer's own pairings open, before the change and after it.
    package let children: (before: Int, after: Int)
  }

  /// Compares all customers of the apps.
  /// - Parameters:
  ///   - bundleID: the only app; `nil` for all apps of the configuration in force.
  ///   - instant: the time of the comparison.
  ///   - progress: called after some customers of an app, with their number.
  ///   - found: called with each customer who would notice, in the order of the ids.
  /// - Throws: ``WhatIfProblem``, errors of the database, and what `found` throws.
  package func run(
    bundleID: String?, at instant: Date, progress: (App, Int) -> Void, found: (Finding) throws -> Void
  ) async throws -> [WhatIfReport] {
    if let bundleID, current[bundleID] == nil { throw WhatIfProblem.unknownApp(bundleID) }
    var reports: [WhatIfReport] = []
    for app in current.apps where bundleID.map({ $0 == app.bundleID }) ?? true {
      if let other = other[app.bundleID], other.customer != app.customer {
        throw WhatIfProblem.otherCustomers(app.bundleID)
      }
      var report = WhatIfReport(app: app, isMissing: other[app.bundleID] == nil)
      var pages = CustomerPages(of: app)
      var waiting: [Customer] = []
      while !pages.isAtEnd || !waiting.isEmpty {
        while waiting.count < Self.batch * Self.width, !pages.isAtEnd {
          waiting += try await pages.next(in: pool)
        }
        let round = Array(waiting.prefix(Self.batch * Self.width))
        waiting.removeFirst(round.count)
        for part in try await findings(of: round, in: app, at: instant) {
          for finding in part {
            report.add(finding, at: instant)
            try found(finding)
          }
        }
        report.customers += round.count
        progress(app, report.customers)
      }
      reports.append(report)
    }
    return reports
  }

  /// The findings of each batch of these customers, in their order.
  private func findings(of customers: [Customer], in app: App, at instant: Date) async throws -> [[Finding]] {
    let batches = stride(from: 0, to: customers.count, by: Self.batch).map {
      Array(customers[$0..<min($0 + Self.batch, customers.count)])
    }
    return try await withThrowingTaskGroup(of: (Int, [Finding]).self) { group in
      for (index, batch) in batches.enumerated() {
        group.addTask { (index, try await findings(ofBatch: batch, in: app, at: instant)) }
      }
      return try await group.reduce(into: Array(repeating: [], count: batches.count)) { $0[$1.0] = $1.1 }
    }
  }

  private func findings(
    ofBatch customers: [Customer], in app: App, at instant: Date
  ) async throws -> [Finding] {
    try await pool.withConnection { connection in
      let records = try await connection.customerRecords(
        users: customers.compactMap(\.userID), devices: customers.compactMap(\.deviceID))
      let purchases = Set(
        customers.flatMap { records[$0].subscriptions + records[$0].shared }.filter {
          $0.bundleID == app.bundleID
        }.map(\.originalTransactionID)
      ).sorted()
      let facts = try await connection.facts(of: purchases)
      let children =
        app.limitsDevices ? try await connection.children(of: customers.compactMap(\.deviceID), in: app) : [:]
      return try customers.compactMap {
        try Task.checkCancellation()
        return finding(
          $0, records[$0], facts, records.freeAccessByApp[app], children: children[$0.id] ?? 0, in: app,
          at: instant)
      }
    }
  }

  private func finding(
    _ customer: Customer, _ records: CustomerRecordSet, _ facts: [String: SubscriptionFacts],
    _ freeAccess: FreeAccess, children: Int, in app: App, at instant: Date
  ) -> Finding? {
    // Which of several trials counts depends on the time too.
    func former(at instant: Date) -> Entitlements {
      app.entitlements(
        of: records.customerRecords(of: app, for: customer, freeAccess: freeAccess, at: instant),
        for: customer, at: instant)
    }
    let other = other[app.bundleID]
    let refolded = other.map { records.refolded(facts, under: $0, freeAccess) }
    func latter(at instant: Date) -> Entitlements {
      guard let other, let refolded else { return app.withoutAccess }
      return other.entitlements(
        of: refolded.customerRecords(of: other, for: customer, freeAccess: freeAccess, at: instant),
        for: customer, at: instant)
    }
    guard let change = AccessChange(from: instant, former(at:), latter(at:)) else { return nil }
    var revenue = MonthlyRevenue()
    for stored in records.subscriptions where stored.bundleID == app.bundleID {
      revenue.add(stored.subscription, in: app, at: instant)
    }
    let (before, after) = (former(at: change.at), latter(at: change.at))
    return Finding(
      customer: customer, bundleID: app.bundleID, change: change, before: before, after: after,
      revenue: revenue, children: (before.openChildren(of: children), after.openChildren(of: children)))
  }
}

/// A comparison that is not possible.
package enum WhatIfProblem: Error, CustomStringConvertible {
  case unknownApp(String)
  case otherCustomers(String)

  package var description: String {
    switch self {
    case .unknownApp(let bundleID): "the configuration in force has no app '\(bundleID)'"
    case .otherCustomers(let bundleID):
      "\(bundleID): 'customer' differs; receiptd cannot tell which user has which device"
    }
  }
}

extension Entitlements {
  /// How many of a parent's children's devices they open.
  fileprivate func openChildren(of paired: Int) -> Int {
    isAccessGranted ? min(paired, features.limit(for: Household.limitFeature) ?? paired) : 0
  }
}

extension App {
  /// What a customer has without the app.
  fileprivate var withoutAccess: Entitlements {
    entitlements(of: CustomerRecords(), for: nil, at: .distantPast)
  }
}

extension CustomerRecordSet {
  /// The records with the purchases as another configuration folds them.
  fileprivate func refolded(
    _ facts: [String: SubscriptionFacts], under app: App, _ freeAccess: FreeAccess
  ) -> CustomerRecordSet {
    func refolded(_ all: [StoredSubscription]) -> [StoredSubscription] {
      all.map { stored in
        var stored = stored
        stored.subscription =
          facts[stored.originalTransactionID]?.subscription(under: app, freeAccess: freeAccess)
          ?? stored.subscription
        return stored
      }
    }
    var records = self
    records.subscriptions = refolded(subscriptions)
    records.shared = refolded(shared)
    return records
  }
}

extension PostgresConnection {
  /// The number of the children's devices that each of these devices paired itself. Another device of the same plan has
  /// its own.
  fileprivate nonisolated(nonsending) func children(of devices: [String], in app: App) async throws
    -> [String: Int]
  {
    let rows = try await query(
      """
      SELECT device_id, count(*) AS children FROM devices
      WHERE bundle_id = \(app.bundleID) AND device_id = ANY(\(devices)) GROUP BY device_id
      """)
    return try rows.reduce(into: [:]) {
      $0[try $1.decode("device_id")] = try $1.decode("children", as: Int.self)
    }
  }

  /// The signed facts of these purchases.
  fileprivate nonisolated(nonsending) func facts(of purchases: [String]) async throws
    -> [String: SubscriptionFacts]
  {
    guard !purchases.isEmpty else { return [:] }
    var reads = Statements()
    let transactions = reads.add(
      TransactionRows.select(purchases, or: []), reading: { try TransactionRows.decode($0) })
    let renewals = reads.add(RenewalRows.select(purchases), reading: RenewalRows.decode)
    let answers = try await answers(to: reads)
    var facts: [String: SubscriptionFacts] = [:]
    for fact in try answers[transactions] {
      facts[fact.originalTransactionID, default: SubscriptionFacts()].add(fact)
    }
    for fact in try answers[renewals] {
      facts[fact.originalTransactionID, default: SubscriptionFacts()].add(fact)
    }
    return facts
  }
}

/// The customers of an app in the order of their ids, page by page: those with a purchase, a trial or a grant.
///
/// A page reads the next customers of all apps, so that a statement ends in time for an app with few customers beside a
/// large one too. Arrays and not `EXISTS`, which the planner may answer by a hash of the whole table for each page.
private struct CustomerPages {
  private let app: App
  private var last: Customer?
  private(set) var isAtEnd = false

  private static let size = 500

  init(of app: App) { self.app = app }

  mutating func next(in pool: PostgresPool) async throws -> [Customer] {
    let query =
      app.customer == .user
      ? Self.users(of: app.bundleID, after: last?.userID)
      : Self.devices(of: app.bundleID, after: last?.deviceID)
    let rows = try await pool.withConnection { connection in
      try await connection.pipeline([LookupPlans.useIndexScans, query])[1]
    }
    let customers: [(customer: Customer, isOfApp: Bool)] = try rows.map { row in
      let customer: Customer =
        app.customer == .user ? .user(try row.decode("user_id")) : .device(try row.decode("device_id"))
      return (customer, try row.decode("is_of_app"))
    }
    last = customers.last?.customer
    isAtEnd = customers.count < Self.size
    return customers.filter(\.isOfApp).map(\.customer)
  }

  private static func users(of bundleID: String, after last: UUID?) -> Query {
    let least = last ?? UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    return """
      SELECT user_id, \(bundleID) = ANY (ARRAY(
          SELECT bundle_id FROM subscriptions s WHERE s.user_id = found.user_id AND bundle_id IS NOT NULL
          UNION ALL SELECT bundle_id FROM grants g WHERE g.user_id = found.user_id)) AS is_of_app
      FROM (
        (SELECT DISTINCT user_id FROM subscriptions WHERE user_id > \(least) ORDER BY user_id LIMIT \(size))
        UNION
        (SELECT DISTINCT user_id FROM grants WHERE user_id > \(least) ORDER BY user_id LIMIT \(size))
      ) AS found ORDER BY user_id LIMIT \(size)
      """
  }

  private static func devices(of bundleID: String, after last: String?) -> Query {
    let least = last ?? ""
    return """
      SELECT device_id, \(bundleID) = ANY (ARRAY(
          SELECT bundle_id FROM subscriptions s WHERE s.device_id = found.device_id AND bundle_id IS NOT NULL
          UNION ALL SELECT bundle_id FROM purchase_devices p WHERE p.device_id = found.device_id
          UNION ALL SELECT bundle_id FROM trials t WHERE t.device_id = found.device_id
          UNION ALL SELECT bundle_id FROM grants g WHERE g.device_id = found.device_id)) AS is_of_app
      FROM (
        (SELECT DISTINCT device_id FROM subscriptions WHERE device_id > \(least) ORDER BY device_id LIMIT \(size))
        UNION
        (SELECT DISTINCT device_id FROM purchase_devices WHERE device_id > \(least) ORDER BY device_id LIMIT \(size))
        UNION
        (SELECT DISTINCT device_id FROM trials WHERE device_id > \(least) ORDER BY device_id LIMIT \(size))
        UNION
        (SELECT DISTINCT device_id FROM grants WHERE device_id > \(least) ORDER BY device_id LIMIT \(size))
      ) AS found ORDER BY device_id LIMIT \(size)
      """
  }
}
