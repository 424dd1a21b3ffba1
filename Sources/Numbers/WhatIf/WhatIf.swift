import Configuration
import Customers
import Foundation
import Ledger
import Postgres
import Subscriptions
import Work

/// Compares what the customers have with what they would have under another configuration. It writes nothing.
///
/// A customer's purchases are folded again from the signed facts, by the same code that folds them for the ledger. Children's devices
/// follow their parents and are not compared.
package struct WhatIf: Sendable {
  let current: AppCatalog
  let other: AppCatalog
  let pool: PostgresPool

  package init(current: AppCatalog, other: AppCatalog, pool: PostgresPool) {
    self.current = current
    self.other = other
    self.pool = pool
  }

  /// The customers of one page.
  private static let batch = 500
  /// The pages that are compared at a time.
  private static let width = 4

  /// A customer who would notice.
  package struct Finding: Sendable {
    package let customer: Customer
    package let bundleID: String
    package let change: AccessChange
    package let before: Entitlements
    package let after: Entitlements
    package let revenue: MonthlyRevenue
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
      var place = CustomerPages.start(of: app)
      while !place.isAtEnd {
        var pages: [[Customer]] = []
        while pages.count < Self.width, !place.isAtEnd {
          pages.append(try await place.next(Self.batch, in: pool))
        }
        for page in try await findings(of: pages, in: app, at: instant) {
          for finding in page {
            report.add(finding, at: instant)
            try found(finding)
          }
        }
        report.customers += pages.reduce(0) { $0 + $1.count }
        progress(app, report.customers)
      }
      reports.append(report)
    }
    return reports
  }

  private func findings(
    of pages: [[Customer]], in app: App, at instant: Date
  ) async throws -> [[Finding]] {
    try await withThrowingTaskGroup(of: (Int, [Finding]).self) { group in
      for (index, page) in pages.enumerated() {
        group.addTask { (index, try await findings(of: page, in: app, at: instant)) }
      }
      return try await group.reduce(into: Array(repeating: [], count: pages.count)) { $0[$1.0] = $1.1 }
    }
  }

  private func findings(of customers: [Customer], in app: App, at instant: Date) async throws -> [Finding] {
    guard !customers.isEmpty else { return [] }
    return try await pool.withConnection { connection in
      let records = try await connection.customerRecords(
        users: customers.compactMap(\.userID), devices: customers.compactMap(\.deviceID))
      let purchases = Set(
        customers.flatMap { records[$0].subscriptions + records[$0].shared }.filter {
          $0.bundleID == app.bundleID
        }.map(\.originalTransactionID)
      ).sorted()
      let facts = try await connection.facts(of: purchases)
      return customers.compactMap {
        finding($0, records[$0], facts, records.freeAccessByApp[app], in: app, at: instant)
      }
    }
  }

  private func finding(
    _ customer: Customer, _ records: CustomerRecordSet, _ facts: [String: SubscriptionFacts],
    _ freeAccess: FreeAccess, in app: App, at instant: Date
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
    return Finding(
      customer: customer, bundleID: app.bundleID, change: change,
      before: former(at: change.at), after: latter(at: change.at), revenue: revenue)
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
private struct CustomerPages {
  private let app: App
  private var last: Customer?
  private(set) var isAtEnd = false

  static func start(of app: App) -> CustomerPages { CustomerPages(app: app) }

  private init(app: App) { self.app = app }

  mutating func next(_ limit: Int, in pool: PostgresPool) async throws -> [Customer] {
    let query =
      app.customer == .user
      ? Self.users(of: app.bundleID, after: last?.userID, limit)
      : Self.devices(of: app.bundleID, after: last?.deviceID, limit)
    let rows = try await pool.withConnection { connection in
      try await connection.pipeline([LookupPlans.useIndexScans, query])[1]
    }
    let customers: [Customer] =
      app.customer == .user
      ? try rows.map { .user(try $0.decode("user_id")) }
      : try rows.map { .device(try $0.decode("device_id")) }
    last = customers.last
    isAtEnd = customers.count < limit
    return customers
  }

  private static func users(of bundleID: String, after last: UUID?, _ limit: Int) -> Query {
    let least = last ?? UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    return """
      SELECT user_id FROM (
        (SELECT DISTINCT user_id FROM subscriptions WHERE bundle_id = \(bundleID) AND user_id > \(least)
         ORDER BY user_id LIMIT \(limit))
        UNION
        (SELECT DISTINCT user_id FROM grants WHERE bundle_id = \(bundleID) AND user_id > \(least) ORDER BY user_id LIMIT \(limit))
      ) AS found ORDER BY user_id LIMIT \(limit)
      """
  }

  private static func devices(of bundleID: String, after last: String?, _ limit: Int) -> Query {
    let least = last ?? ""
    return """
      SELECT device_id FROM (
        (SELECT DISTINCT device_id FROM subscriptions WHERE bundle_id = \(bundleID) AND device_id > \(least)
         ORDER BY device_id LIMIT \(limit))
        UNION
        (SELECT DISTINCT device_id FROM purchase_devices WHERE bundle_id = \(bundleID) AND device_id > \(least)
         ORDER BY device_id LIMIT \(limit))
        UNION
        (SELECT DISTINCT device_id FROM trials WHERE bundle_id = \(bundleID) AND device_id > \(least)
         ORDER BY device_id LIMIT \(limit))
        UNION
        (SELECT DISTINCT device_id FROM grants WHERE bundle_id = \(bundleID) AND device_id > \(least)
         ORDER BY device_id LIMIT \(limit))
      ) AS found ORDER BY device_id LIMIT \(limit)
      """
  }
}
