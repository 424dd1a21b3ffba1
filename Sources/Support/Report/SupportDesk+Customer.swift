import Actions
import Authentication
import Configuration
import Customers
import Foundation
import HTTP
import JSON
import Ledger
import Postgres
import Subscriptions
import Text
import Work

extension SupportDesk {
  /// The maximum number of events in a report.
  private static let events = 20
  /// The maximum number of refused requests in a report. They do not count as events, because any client can cause
  /// them.
  private static let refusals = 5
  /// The maximum number of deliveries in a report.
  private static let deliveries = 5
  /// The maximum number of children's devices in a report. During free access any client can pair any number.
  private static let children = 20

  /// Reports the customers and purchases with an id; the report of an unknown id is empty.
  /// - Parameters:
  ///   - id: anything that ``find(_:by:)`` finds.
  ///   - actor: the actor in the record of what a look-up at the App Store repairs.
  ///   - timeline: the events to show.
  /// - Throws: errors of the database.
  package func customer(
    _ id: String, by actor: SupportActor = .rule("receiptd"), timeline: TimelinePage = TimelinePage()
  ) async throws -> CustomerReport {
    let instant = clock.now()
    let found = try await find(id, by: actor)
    return try await pool.withConnection { connection in
      let search = found.search
      var customers: [ReportedCustomer] = []
      for match in search.customers {
        guard let app = catalog[match.bundleID] else { continue }
        customers.append(try await report(on: match.customer, in: app, timeline, at: instant, connection))
      }
      let purchases = try await connection.query(SubscriptionRows.select(search.purchases))
        .map(SubscriptionRows.decode)
      let details = try await details(of: search.purchases, at: instant, connection)
      let unclaimed = purchases.filter { stored in
        stored.owner == nil || catalog[stored.bundleID] == nil
      }
      return CustomerReport(
        asked: id, found: found, customers: customers,
        pairings: try await pairings(of: found.id, with: search.parents, at: instant, connection),
        unclaimed: unclaimed.map {
          ReportedPurchase(
            $0, in: catalog[$0.bundleID], with: details, hasStoreKey: apis[$0.bundleID] != nil, at: instant)
        },
        serverTime: instant)
    }
  }

  /// The pairings of a child's device with these parents.
  private func pairings(
    of child: String, with parents: [CustomerSearch.Match], at instant: Date, _ connection: PostgresConnection
  ) async throws -> [ReportedPairing] {
    let child = DeviceID.normalized(child)
    var pairings: [ReportedPairing] = []
    for (bundleID, matches) in Dictionary(grouping: parents, by: \.bundleID).sorted(by: { $0.key < $1.key }) {
      guard let app = catalog[bundleID] else { continue }
      let households = try await connection.households(
        of: matches.map(\.customer.id), in: app, at: instant)
      for parent in matches {
        let household = households[parent.customer.id]
        pairings.append(
          ReportedPairing(
            childDeviceID: child, name: household?.children.first { $0.childDeviceID == child }?.name,
            parent: parent, state: household?.state(of: child)))
      }
    }
    return pairings
  }

  private func report(
    on customer: Customer, in app: App, _ page: TimelinePage, at instant: Date,
    _ connection: PostgresConnection
  ) async throws -> ReportedCustomer {
    let users = [customer.userID].compactMap(\.self)
    let devices = [customer.deviceID].compactMap(\.self)
    var reads = Statements()
    let timelineRead = reads.add(page.select(Self.events, of: customer, bundleID: app.bundleID))
    let grantReads = reads.add(GrantRows.select(of: [customer]), reading: StoredGrant.init)
    let moveRead = reads.add(
      PastAccess.lastMove(from: customer, bundleID: app.bundleID), reading: PastAccess.init(move:))
    let refusalReads = reads.add(
      RefusedAttemptRows.last(Self.refusals, of: customer, bundleID: app.bundleID),
      reading: RefusedAttempt.init)
    let deliveryReads = reads.add(
      ReportedDelivery.select(of: customer, bundleID: app.bundleID, limit: Self.deliveries),
      reading: ReportedDelivery.init)
    let seenRead = reads.add(SeenUserRows.select(customer, of: app.bundleID), reading: SeenTimes.init)
    let recordReads = AllCustomerRecordReads(users: users, devices: devices, in: &reads)
    let answers = try await connection.answers(to: reads)
    let timeline = try answers[timelineRead]
    let all = try recordReads.records(in: answers)
    let customerRecords = all.customerRecords(of: customer, in: app, at: instant)
    let access = try await connection.access(of: devices, in: app, at: instant)[customer.id]
    let household = try await connection.households(of: devices, in: app, at: instant)[customer.id]
    let entitlements =
      access?.entitlements ?? app.entitlements(of: customerRecords, for: customer, at: instant)
    let stored = all[customer].purchases(of: app)
      .sorted { $0.subscription.current.purchaseDate > $1.subscription.current.purchaseDate }
    let others = try await others(beside: stored, of: app, connection)
    let details = try await details(
      of: (stored + others).map(\.originalTransactionID), at: instant, connection)
    let purchases = stored.map {
      ReportedPurchase(
        $0, in: app, of: customer, with: details, hasStoreKey: apis[app.bundleID] != nil, at: instant)
    }
    let storedGrants = try answers[grantReads].filter { $0.bundleID == app.bundleID }
    let grants = storedGrants.map { ReportedGrant($0, in: app, at: instant) }
    let past =
      try answers[moveRead] + storedGrants.compactMap { PastAccess($0, at: instant) }
    let trial = customerRecords.trial.map {
      ReportedTrial($0, of: customer, in: app, honoring: customerRecords.freeAccess, at: instant)
    }
    let paired = household?.children ?? []
    var report = ReportedCustomer(
      kind: customer.kindWord, customer: customer.id, bundleID: app.bundleID, app: app.name,
      entitlements: EntitlementsResponse(entitlements),
      accessUntil: app.accessEnd(of: customerRecords, for: customer, after: instant),
      because: entitlements.explanation(
        notes: purchases.compactMap(\.note) + grants.compactMap(\.note) + [trial?.note].compactMap(\.self),
        past: past.max { $0.at < $1.at }, plans: details.plans, at: instant),
      decidingPurchase: entitlements.purchase,
      seen: try answers[seenRead].first,
      purchases: purchases,
      doublePurchases: [DoublePurchase](stored, others, in: app, details.plans, at: instant),
      grants: grants, trial: trial,
      freeAccessSince: customerRecords.freeAccess.periods.first {
        $0.startsAt <= instant && $0.endsAt == nil
      }?
      .startsAt,
      children: [ReportedChild](
        paired.prefix(Self.children), under: household?.entitlements ?? entitlements),
      childrenHidden: max(0, paired.count - Self.children),
      deliveries: try answers[deliveryReads],
      refusedAttempts: try await settling(answers[refusalReads].reversed(), connection),
      events: try timeline.map(TimelineEvent.init).reversed(),
      eventsHidden: try timeline.first.map {
        try $0.decode("total", as: Int.self) - timeline.count - (page.number - 1) * Self.events
      } ?? 0)
    report.sentences = report.headSentences(at: instant) { $0.rfc3339 }
    return report
  }

  /// What the report says of these purchases beside their rows.
  private func details(
    of purchases: [String], at instant: Date, _ connection: PostgresConnection
  ) async throws -> PurchaseDetails {
    var details = try await PurchaseDetails(of: purchases, connection)
    details.refundRequests = try await refundRequests(of: purchases, at: instant, connection)
    details.refundPreferences = try await refundPreferences(of: purchases, connection)
    return details
  }

  /// Other customers' purchases in this app that the same Apple Accounts have.
  private func others(
    beside own: [StoredSubscription], of app: App, _ connection: PostgresConnection
  ) async throws -> [StoredSubscription] {
    let accounts = Set(own.compactMap(\.subscription.current.appTransactionID)).sorted()
    guard !accounts.isEmpty else { return [] }
    let known = Set(own.map(\.originalTransactionID))
    return try await connection.query(SubscriptionRows.select(ofAccounts: accounts, bundleID: app.bundleID))
      .map(SubscriptionRows.decode).filter { !known.contains($0.originalTransactionID) }
  }
}

extension App {
  /// The first instant at which the customer has no access if nothing new arrives; `nil` without access, or without an
  /// end.
  func accessEnd(
    of customerRecords: CustomerRecords, for customer: Customer, after instant: Date
  ) -> Date? {
    var end = instant
    // Each step is a change of the records at hand, and there are few.
    for _ in 0..<100 {
      let entitlements = entitlements(of: customerRecords, for: customer, at: end)
      guard entitlements.isAccessGranted else { return end == instant ? nil : end }
      guard let next = entitlements.validUntil, next > end else { return nil }
      end = next
    }
    return end
  }
}

/// A page of a customer's timeline: of all events but refused requests, the last ones first.
package struct TimelinePage: Sendable {
  /// The kinds of events that a reader can choose.
  package enum Kind: String, CaseIterable, Sendable {
    /// Purchases, renewals, refunds and ends of access.
    case purchases
    /// Notifications that brought no transaction.
    case notifications
    /// Actions of support.
    case support
    /// Trials, grants that ended, pairings.
    case other
  }

  /// `nil` for all.
  package var kind: Kind?
  /// From 1.
  package var number: Int

  /// The last page: each reads all events of its customer.
  package static let maximumNumber = 100

  package init(_ kind: Kind? = nil, number: Int = 1) {
    self.kind = kind
    self.number = number
  }

  /// The rows, with the number of all of that kind.
  fileprivate func select(_ count: Int, of customer: Customer, bundleID: String) -> Postgres.Query {
    // No OR over both columns, so that each query uses its index.
    let owner: Postgres.Query =
      switch customer {
      case .user(let user): "user_id = \(user)"
      case .device(let device): "device_id = \(device)"
      }
    return """
      SELECT page.*, coalesce(t.signed_at, n.signed_at) AS signed_at,
        CASE WHEN page.event <> 'revoked' THEN coalesce(t.first_seen_at, n.received_at) END AS received_at
      FROM (
        SELECT at, event, what, reference, source, count(*) OVER () AS total FROM support_timeline
        WHERE \(owner) AND bundle_id = \(bundleID) AND event <> 'refused' AND \(condition)
        ORDER BY at DESC, reference DESC LIMIT \(count) OFFSET \((number - 1) * count)
      ) AS page
      LEFT JOIN transactions t
        ON page.event IN ('purchase', 'renewal', 'restore', 'revoked') AND t.transaction_id = page.reference
      LEFT JOIN notifications n
        ON n.notification_uuid = CASE WHEN page.event = 'notification' THEN page.reference::uuid END
      ORDER BY page.at DESC, page.reference DESC
      """
  }

  private var condition: Postgres.Query {
    let purchases: Postgres.Query = "event IN ('purchase', 'renewal', 'restore', 'revoked', 'access ended')"
    return switch kind {
    case nil: "true"
    case .purchases: purchases
    case .notifications: "event = 'notification'"
    case .support: "source = 'support'"
    case .other: "NOT \(purchases) AND event <> 'notification' AND source IS DISTINCT FROM 'support'"
    }
  }
}

/// A row of the view `support_timeline`.
package struct TimelineEvent: Sendable {
  package var at: Date
  package var event: String
  package var what: String
  package var reference: String
  package var source: String
  /// When Apple signed it; `nil` for what Apple does not sign.
  package var signedAt: Date?
  /// When receiptd first had it; `nil` where that is `at`, or unknown.
  package var receivedAt: Date?

  init(_ row: Row) throws {
    at = try row.decode("at")
    event = try row.decode("event")
    what = try row.decode("what")
    reference = try row.decode("reference")
    source = try row.decode("source")
    signedAt = try row.decode("signed_at")
    receivedAt = try row.decode("received_at")
  }
}

extension TimelineEvent: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("at", at)
      json.member("event", event)
      json.member("reference", reference)
      json.member("source", source)
      json.member("what", what)
    }
  }
}
