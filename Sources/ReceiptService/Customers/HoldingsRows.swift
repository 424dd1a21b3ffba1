import FoundationEssentials
import Postgres
import Subscriptions

/// Reads what customers have: `subscriptions`, `purchase_devices`, `grants`, `trials` and `free_access`.
enum HoldingsRows {
  /// How many questions ``select(users:devices:)`` are where there are devices.
  static let count = 5

  /// What is to be asked; the answers go to ``decode(_:)`` in the same order.
  static func select(users: [UUID], devices: [String]) -> [Query] {
    [LookupPlans.fromHere, freeTimes] + lookups(users: users, devices: devices)
  }

  /// The same where ``LookupPlans`` are chosen and ``freeTimes`` read already; the answers go to
  /// ``decodeLookups(_:freeTimes:)``.
  /// - Parameters:
  ///   - known: purchases that need not be read.
  ///   - sharing: whether what is shared with devices is wanted.
  static func lookups(
    users: [UUID], devices: [String], except known: [String] = [], sharing: Bool = true
  ) -> [Query] {
    [
      SubscriptionRows.select(users: users, devices: devices, except: known, sharing: sharing),
      grants(users: users, devices: devices),
    ] + (devices.isEmpty ? [] : [trials(devices)])
  }

  private static func grants(users: [UUID], devices: [String]) -> Query {
    // A grant is a user's or a device's. An OR would need a scan of another kind, which LookupPlans rule out.
    var ways: [Query] = []
    if !users.isEmpty || devices.isEmpty {
      ways.append("SELECT \(unescaped: grantColumns) WHERE user_id = ANY(\(users)) AND revoked_at IS NULL")
    }
    if !devices.isEmpty {
      ways.append(
        "SELECT \(unescaped: grantColumns) WHERE device_id = ANY(\(devices)) AND revoked_at IS NULL")
    }
    return .union(all: ways)
  }

  private static let grantColumns: StaticString =
    "user_id, device_id, bundle_id, id, tier, starts_at, ends_at, environment FROM grants"

  private static func trials(_ devices: [String]) -> Query {
    """
    SELECT own.device_id, own.bundle_id, told.started_at, told.ends_at, own.environment
    FROM trials own JOIN trials told ON told.id = coalesce(own.continues, own.id)
    WHERE own.device_id = ANY(\(devices))
    """
  }

  /// When which app asked nobody for a subscription. There are few, so all are read.
  static let freeTimes: Query = "SELECT bundle_id, starts_at, ends_at FROM free_access"

  /// - Parameter answers: those to ``select(users:devices:)``.
  static func decode(_ answers: some Sequence<Rows>) throws -> HoldingsByCustomer {
    let answers = Array(answers)
    return try decodeLookups(answers.dropFirst(2), freeTimes: decodeFreeTimes(answers[1]))
  }

  /// - Parameter answers: those to ``lookups(users:devices:)``.
  static func decodeLookups(
    _ answers: some Sequence<Rows>, freeTimes: FreeTimes
  ) throws -> HoldingsByCustomer {
    let answers = Array(answers)
    var holdings = HoldingsByCustomer()
    holdings.freeTimes = freeTimes
    for row in answers[0] {
      let stored = try SubscriptionRows.decode(row)
      if let sharer = try SubscriptionRows.sharer(row) {
        holdings.customers[sharer, default: .init()].shared.append(stored)
        continue
      }
      guard let owner = stored.owner?.customer else { continue }
      holdings.customers[owner, default: .init()].subscriptions.append(stored)
    }
    for row in answers[1] {
      let user = try row.decode(0, as: UUID?.self).map(Customer.user)
      guard let customer = try user ?? row.decode(1, as: String?.self).map(Customer.device) else { continue }
      let grant = Grant(
        id: try row.decode(3), tier: try row.decode(4), startsAt: try row.decode(5),
        endsAt: try row.decode(6), environment: try environment(row.decode(7)))
      holdings.customers[customer, default: .init()].grants[try row.decode(2), default: []].append(grant)
    }
    for row in answers.dropFirst(2).joined() {
      let trial = Trial(
        startedAt: try row.decode(2), endsAt: try row.decode(3), environment: try environment(row.decode(4)))
      holdings.customers[.device(try row.decode(0)), default: .init()]
        .trials[try row.decode(1), default: []].append(trial)
    }
    return holdings
  }

  static func decodeFreeTimes(_ rows: Rows) throws -> FreeTimes {
    var freeTimes = FreeTimes()
    for row in rows {
      freeTimes.add(
        FreeTime.Spell(startsAt: try row.decode(1), endsAt: try row.decode(2)), of: try row.decode(0))
    }
    return freeTimes
  }
}

extension PostgresPool {
  /// What these customers have.
  func holdings(users: [UUID] = [], devices: [String] = []) async throws -> HoldingsByCustomer {
    let answers = try await withConnection { connection in
      try await connection.pipeline(HoldingsRows.select(users: users, devices: devices))
    }
    return try HoldingsRows.decode(answers)
  }
}
