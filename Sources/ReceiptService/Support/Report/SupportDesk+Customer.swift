import FoundationEssentials
import Postgres
import Subscriptions

extension SupportDesk {
  /// How many of the last events a report shows.
  private static let events = 20

  /// What is known of whoever goes by an id.
  /// - Parameter id: a user's UUID, a device's name (a paired one's too), or any transaction's id.
  /// - Throws: what the database throws. An id that nothing is known of gives an empty report.
  public func customer(_ id: String) async throws -> CustomerReport {
    let instant = clock.now()
    return try await pool.withConnection { connection in
      let search = try await CustomerSearch(id, in: catalog, connection)
      var stories: [CustomerStory] = []
      for found in search.customers {
        guard let app = catalog[found.bundleID] else { continue }
        stories.append(try await story(of: found.customer, in: app, at: instant, connection))
      }
      let purchases = try await connection.query(SubscriptionRows.select(search.purchases))
        .map(SubscriptionRows.decode)
      let unclaimed = purchases.filter { stored in
        stored.owner == nil || catalog[stored.bundleID] == nil
      }
      return CustomerReport(
        asked: id, customers: stories,
        unclaimed: unclaimed.map { PurchaseStory($0, in: catalog[$0.bundleID], at: instant) },
        serverTime: instant)
    }
  }

  private func story(
    of customer: Customer, in app: App, at instant: Date, _ connection: PostgresConnection
  ) async throws -> CustomerStory {
    let users = [customer.userID].compactMap(\.self)
    let devices = [customer.deviceID].compactMap(\.self)
    let answers = try await connection.pipeline(
      [
        TimelineRows.last(Self.events, of: customer, bundleID: app.bundleID),
        GrantRows.select(of: [customer]),
      ] + HoldingsRows.select(users: users, devices: devices))
    let all = try HoldingsRows.decode(answers.dropFirst(2))
    let holdings = all.holdings(of: customer, in: app)
    let entitlements = app.entitlements(of: holdings, for: customer, at: instant)
    let purchases = all[customer].purchases(of: app)
      .sorted { $0.subscription.current.purchaseDate > $1.subscription.current.purchaseDate }
      .map { PurchaseStory($0, in: app, of: customer, at: instant) }
    let grants = try answers[1].map(GrantRows.decode).filter { $0.bundleID == app.bundleID }
      .map { GrantStory($0, in: app, at: instant) }
    let trial = holdings.trial.map {
      TrialStory($0, of: customer, in: app, honoring: holdings.freeTime, at: instant)
    }
    return CustomerStory(
      kind: customer.kindWord, customer: customer.id, bundleID: app.bundleID, app: app.name,
      entitlements: EntitlementsAnswer(entitlements),
      because: entitlements.explanation(
        notes: purchases.compactMap(\.note) + grants.compactMap(\.note) + [trial?.note].compactMap(\.self),
        at: instant),
      purchases: purchases, grants: grants, trial: trial,
      freeAccessSince: holdings.freeTime.spells.first { $0.startsAt <= instant && $0.endsAt == nil }?
        .startsAt,
      events: try answers[0].map(TimelineRows.decode).reversed())
  }
}

private enum TimelineRows {
  static func last(_ count: Int, of customer: Customer, bundleID: String) -> Query {
    // One column at a time, so that each answer is found by its index.
    switch customer {
    case .user(let user):
      """
      SELECT at, event, what, reference FROM support_timeline
      WHERE user_id = \(user) AND bundle_id = \(bundleID) ORDER BY at DESC, reference DESC LIMIT \(count)
      """
    case .device(let device):
      """
      SELECT at, event, what, reference FROM support_timeline
      WHERE device_id = \(device) AND bundle_id = \(bundleID) ORDER BY at DESC, reference DESC LIMIT \(count)
      """
    }
  }

  static func decode(_ row: Row) throws -> TimelineEvent {
    TimelineEvent(
      at: try row.decode(0), event: try row.decode(1), what: try row.decode(2),
      reference: try row.decode(3))
  }
}
