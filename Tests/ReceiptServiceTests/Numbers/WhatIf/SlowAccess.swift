import Foundation
import Postgres

/// What customers have at an instant, computed the slow way: from the rows of signed facts, trials, grants and free
/// access, by the rules of `docs/configuration.md`, for one customer and one instant at a time. It shares no code with
/// the server.
struct SlowAccess {
  /// What a customer has.
  struct Answer: Equatable {
    var isGranted: Bool
    var tier: String?
    /// The name and the JSON of each feature.
    var features: [String: String]
  }

  /// The app's object of the configuration; `nil` where the configuration does not have the app.
  let app: SlowApp?
  /// The free features of the configuration in force.
  let free: [String: String]
  let freeAccess: [SlowRows.Period]

  func answer(to customer: SlowRows.Customer, at instant: Date) -> Answer {
    guard let app else { return Answer(isGranted: false, tier: nil, features: free) }
    var best: Source?
    func consider(_ source: Source) {
      guard let other = best else { return best = source }
      if other.isWeaker(than: source) { best = source }
    }
    var hasBought = false
    for purchase in customer.own + (app.shares ? customer.shared : []) {
      guard let tier = tier(of: purchase, at: instant, in: app),
        app.counts(purchase.current.environment, for: customer.id, at: instant)
      else { continue }
      hasBought = true
      consider(source(purchase, tier, at: instant, in: app))
    }
    for grant in customer.grants {
      guard !grant.isRevoked, grant.start <= instant, instant < grant.end ?? .distantFuture,
        let tier = app.tiers[grant.tier], app.counts(grant.environment, for: customer.id, at: instant)
      else { continue }
      consider(
        Source(
          level: 2, tier: grant.tier, rank: tier.rank, features: tier.features,
          end: grant.end ?? .distantFuture, start: grant.start, name: grant.id))
    }
    if !hasBought, let trial = trial(of: customer, at: instant, in: app) {
      consider(source(trial, at: instant, in: app))
    }
    if freeAccess.contains(where: { $0.start <= instant && instant < $0.end ?? .distantFuture }) {
      consider(
        Source(
          level: 2, tier: app.highest?.name, rank: app.highest?.rank ?? .min,
          features: app.highest?.features ?? app.free, end: .distantPast, start: .distantPast, name: "free"))
    }
    guard let best, best.level > 0 else {
      return Answer(isGranted: false, tier: nil, features: app.free)
    }
    return Answer(isGranted: true, tier: best.tier, features: best.features)
  }

  /// The instants at which the answer may change.
  func boundaries(of customer: SlowRows.Customer) -> [Date] {
    guard let app else { return [] }
    var found = freeAccess.flatMap { [$0.start, $0.end].compactMap(\.self) }
    for purchase in customer.own + customer.shared {
      found.append(purchase.current.start)
      guard let end = paidUntil(purchase, in: app) else { continue }
      found += [end, billingGraceEnd(purchase, after: end), pausedEnd(of: app.graceLength, from: end)]
        .compactMap(\.self)
    }
    for grant in customer.grants { found += [grant.start, grant.end].compactMap(\.self) }
    for trial in customer.trials {
      guard let end = pausedEnd(of: trial.end.timeIntervalSince(trial.start), from: trial.start) else {
        continue
      }
      found += [end, pausedEnd(of: app.graceLength, from: end)].compactMap(\.self)
    }
    if let end = app.sandboxUntil { found.append(end) }
    return found
  }

  // MARK: Sources

  /// What may give access: level 2 in full, level 1 in the app's own grace, level 0 no more.
  private struct Source {
    var level: Int
    var tier: String?
    var rank: Int
    var features: [String: String]
    var end: Date
    var start: Date
    var name: String

    func isWeaker(than other: Source) -> Bool {
      if level != other.level { return level < other.level }
      if level > 0, rank != other.rank { return rank < other.rank }
      if level == 2, (tier == nil) != (other.tier == nil) { return tier == nil }
      return (end, start, name) < (other.end, other.start, other.name)
    }
  }

  private func source(
    _ purchase: SlowRows.Purchase, _ tier: String, at instant: Date, in app: SlowApp
  ) -> Source {
    let current = purchase.current
    let end = paidUntil(purchase, in: app)
    let graceEnd = end.flatMap { billingGraceEnd(purchase, after: $0) }
    var source = Source(
      level: 0, tier: tier, rank: app.tiers[tier]?.rank ?? .min, features: app.free,
      end: max(end ?? .distantFuture, graceEnd ?? .distantPast), start: current.start, name: purchase.id)
    if let revoked = purchase.revoked {
      source.end = min(source.end, revoked)
    } else if instant < source.end {
      source.level = 2
      source.features = app.tiers[tier]?.features ?? app.free
    } else if let end, pausedEnd(of: app.graceLength, from: end).map({ instant < $0 }) ?? true {
      source.level = 1
      source.features = app.grace
    }
    return source
  }

  private func source(_ trial: SlowRows.Trial, at instant: Date, in app: SlowApp) -> Source {
    let end = pausedEnd(of: trial.end.timeIntervalSince(trial.start), from: trial.start)
    var source = Source(
      level: 2, tier: nil, rank: app.highest?.rank ?? .min, features: app.trial, end: end ?? .distantFuture,
      start: trial.start, name: "trial")
    guard let end, end <= instant else { return source }
    let isInGrace = pausedEnd(of: app.graceLength, from: end).map { instant < $0 } ?? true
    source.level = isInGrace ? 1 : 0
    source.features = isInGrace ? app.grace : app.free
    return source
  }

  private func trial(of customer: SlowRows.Customer, at instant: Date, in app: SlowApp) -> SlowRows.Trial? {
    customer.trials.filter { app.counts($0.environment, for: customer.id, at: instant) }
      .max { $0.end < $1.end }
  }

  /// The tier of the product that is open or was last: before a period that was charged ahead, the product before.
  private func tier(of purchase: SlowRows.Purchase, at instant: Date, in app: SlowApp) -> String? {
    let product = app.names[purchase.current.product]
    if instant < purchase.current.start, let before = purchase.before {
      let former = app.names[before]
      if former ?? before != product ?? purchase.current.product {
        return former.flatMap { app.products[$0]?.tier }
      }
    }
    return product.flatMap { app.products[$0]?.tier }
  }

  private func paidUntil(_ purchase: SlowRows.Purchase, in app: SlowApp) -> Date? {
    if let end = purchase.current.end { return end }
    let days = app.names[purchase.current.product].flatMap { app.products[$0]?.days }
    return days.map { purchase.current.start + $0 * 86_400 }
  }

  /// The end of Apple's billing grace.
  private func billingGraceEnd(_ purchase: SlowRows.Purchase, after end: Date) -> Date? {
    guard purchase.revoked == nil, let renewal = purchase.renewalOfPeriod, let graceEnd = renewal.graceEnd,
      renewal.renewalDate.map({ $0 >= end }) ?? true, graceEnd > end
    else { return nil }
    return graceEnd
  }

  /// The end of a period that stands still during free access; `nil` while free access has no end.
  private func pausedEnd(of length: TimeInterval, from start: Date) -> Date? {
    var end = start + length
    for period in freeAccess.sorted(by: { $0.start < $1.start }) where period.start < end {
      guard let last = period.end else { return nil }
      if last > start { end += last.timeIntervalSince(max(period.start, start)) }
    }
    return end
  }
}

/// An app of a configuration, read by Foundation.
struct SlowApp {
  let shares: Bool
  /// The canonical name by every name of a product.
  private(set) var names: [String: String] = [:]
  private(set) var products: [String: (tier: String, days: Double?)] = [:]
  private(set) var tiers: [String: (rank: Int, features: [String: String])] = [:]
  let free: [String: String]
  let trial: [String: String]
  let grace: [String: String]
  let graceLength: TimeInterval
  private(set) var highest: (name: String, rank: Int, features: [String: String])?
  private let sandbox: Set<String>
  private let isSandboxOpen: Bool
  private(set) var sandboxUntil: Date?

  /// - Returns: `nil` where the configuration does not have the app.
  init?(_ bundleID: String, in configuration: String) throws {
    let file = try JSONSerialization.jsonObject(with: Data(configuration.utf8)) as? [String: Any]
    guard
      let app = (file?["apps"] as? [[String: Any]])?.first(where: { $0["bundleID"] as? String == bundleID })
    else { return nil }
    shares = app["customer"] as? String == "device" && (app["devicesPerPurchase"] as? Int ?? 10) > 1
    for (name, product) in app["products"] as? [String: [String: Any]] ?? [:] {
      products[name] = (product["tier"] as? String ?? "", product["accessDays"] as? Double)
      for alias in [name] + (product["aliases"] as? [String] ?? []) { names[alias] = name }
    }
    for (name, tier) in app["tiers"] as? [String: [String: Any]] ?? [:] {
      tiers[name] = (tier["rank"] as? Int ?? 0, Self.features(of: tier) ?? [:])
    }
    highest = tiers.max { ($0.value.rank, $0.key) < ($1.value.rank, $1.key) }
      .map { ($0.key, $0.value.rank, $0.value.features) }
    free = Self.features(of: app["free"]) ?? [:]
    trial = Self.features(of: app["trial"]) ?? free
    grace = Self.features(of: app["grace"]) ?? free
    graceLength = ((app["grace"] as? [String: Any])?["days"] as? Double ?? 0) * 86_400
    sandbox = Set((app["sandboxGrants"] as? [String] ?? []).map { $0.lowercased() })
    let window = app["sandboxGrants"] as? [String: Any]
    isSandboxOpen = app["sandboxGrants"] as? String == "everyone" || window != nil
    sandboxUntil = try (window?["until"] as? String).map { try Date($0, strategy: .iso8601) }
  }

  func counts(_ environment: String, for customer: String, at instant: Date) -> Bool {
    environment == "Production" || sandbox.contains(customer.lowercased())
      || isSandboxOpen && instant < sandboxUntil ?? .distantFuture
  }

  private static func features(of object: Any?) -> [String: String]? {
    guard let features = (object as? [String: Any])?["features"] as? [String: Any] else { return nil }
    return features.mapValues { "\($0)" }
  }
}

/// The rows of an app: its customers with their purchases, trials and grants.
struct SlowRows {
  struct Period {
    var start: Date
    var end: Date?
  }

  struct Grant {
    var id: String
    var tier: String
    var environment: String
    var start: Date
    var end: Date?
    var isRevoked: Bool
  }

  struct Trial {
    var environment: String
    var start: Date
    var end: Date
  }

  struct Transaction {
    var id: String
    var product: String
    var environment: String
    var kind: String
    var start: Date
    var end: Date?
    var revoked: Date?
    var isUpgraded: Bool
    var signed: Date
  }

  struct Renewal {
    var signed: Date
    var renewalDate: Date?
    var graceEnd: Date?
  }

  struct Customer {
    var id: String
    var own: [Purchase] = []
    var shared: [Purchase] = []
    var grants: [Grant] = []
    var trials: [Trial] = []
  }

  private(set) var customers: [String: Customer] = [:]
  private(set) var freeAccess: [Period] = []

  /// - Parameter customer: the column that names the app's customers.
  init(of bundleID: String, by customer: StaticString, in pool: PostgresPool) async throws {
    var transactions: [String: [Transaction]] = [:]
    for row in try await pool.query("SELECT * FROM transactions WHERE bundle_id = \(bundleID)") {
      transactions[try row.decode("original_transaction_id"), default: []].append(
        Transaction(
          id: try row.decode("transaction_id"), product: try row.decode("product_id"),
          environment: try row.decode("environment"), kind: try row.decode("kind"),
          start: try row.decode("purchase_date"), end: try row.decode("expiry_date"),
          revoked: try row.decode("revoked_at"), isUpgraded: try row.decode("is_upgraded"),
          signed: try row.decode("signed_at")))
    }
    var renewals: [String: Renewal] = [:]
    for row in try await pool.query("SELECT * FROM renewals") {
      renewals[try row.decode("original_transaction_id")] = Renewal(
        signed: try row.decode("signed_at"), renewalDate: try row.decode("renewal_date"),
        graceEnd: try row.decode("grace_expires_at"))
    }
    var owners: [String: String] = [:]
    for row in try await pool.query(
      """
      SELECT original_transaction_id AS id, \(unescaped: customer)::text AS customer FROM subscriptions
      WHERE bundle_id = \(bundleID) AND \(unescaped: customer) IS NOT NULL
      """)
    {
      let (id, owner) = (try row.decode("id", as: String.self), try row.decode("customer", as: String.self))
      owners[id] = owner
      customers[owner, default: Customer(id: owner)].own.append(
        Purchase(id, transactions[id] ?? [], renewals[id]))
    }
    for row in try await pool.query("SELECT * FROM purchase_devices WHERE bundle_id = \(bundleID)") {
      let id = try row.decode("original_transaction_id", as: String.self)
      let device = try row.decode("device_id", as: String.self)
      guard owners[id] != device, try !row.decode("is_barred", as: Bool.self) else { continue }
      customers[device, default: Customer(id: device)].shared.append(
        Purchase(id, transactions[id] ?? [], renewals[id]))
    }
    for row in try await pool.query(
      """
      SELECT own.device_id, own.environment, original.started_at, original.ends_at
      FROM trials AS own JOIN trials AS original ON original.id = coalesce(own.continues, own.id)
      WHERE own.bundle_id = \(bundleID)
      """)
    {
      let device = try row.decode("device_id", as: String.self)
      customers[device, default: Customer(id: device)].trials.append(
        Trial(
          environment: try row.decode("environment"), start: try row.decode("started_at"),
          end: try row.decode("ends_at")))
    }
    for row in try await pool.query(
      "SELECT *, \(unescaped: customer)::text AS customer, id::text AS name FROM grants WHERE bundle_id = \(bundleID)"
    ) {
      let id = try row.decode("customer", as: String.self)
      customers[id, default: Customer(id: id)].grants.append(
        Grant(
          id: try row.decode("name", as: String.self).uppercased(), tier: try row.decode("tier"),
          environment: try row.decode("environment"), start: try row.decode("starts_at"),
          end: try row.decode("ends_at"), isRevoked: try row.decode("revoked_at", as: Date?.self) != nil))
    }
    freeAccess = try await pool.query("SELECT * FROM free_access WHERE bundle_id = \(bundleID)")
      .map { Period(start: try $0.decode("starts_at"), end: try $0.decode("ends_at")) }
  }
}

extension SlowRows {
  /// A purchase with the transaction that counts.
  struct Purchase {
    let id: String
    let current: Transaction
    /// When the current transaction was refunded or revoked.
    let revoked: Date?
    /// The product that is paid until the current transaction begins.
    let before: String?
    /// The renewal info, if it is about the current period.
    let renewalOfPeriod: Renewal?

    init(_ id: String, _ transactions: [Transaction], _ renewal: Renewal?) {
      self.id = id
      let day: TimeInterval = 86_400
      let ordered = transactions.sorted { $0.precedes($1) }
      // A renewal is charged up to a day ahead, and another purchase may replace it before it begins.
      var replaced: Set<String> = []
      for renewal in ordered {
        let rivals = ordered.filter {
          $0.start < renewal.start && $0.start >= renewal.start - 2 * day
            && $0.end ?? .distantPast > renewal.start && !replaced.contains($0.id)
        }
        let known = min(renewal.signed, renewal.revoked ?? .distantFuture)
        let former = ordered.first { $0.end == renewal.start }
        let isReplaced =
          renewal.isUpgraded && rivals.contains { !$0.isUpgraded }
          || known < renewal.start - 60 && rivals.contains { $0.start >= known }
          || rivals.contains { rival in
            former.map { rival.start > $0.start && rival.start < renewal.start - 60 } ?? false
          }
        if isReplaced { replaced.insert(renewal.id) }
      }
      func last(_ all: [Transaction]) -> Transaction? {
        all.last { !replaced.contains($0.id) } ?? all.last
      }
      guard let current = last(ordered) else { preconditionFailure("a purchase without a transaction") }
      self.current = current
      revoked =
        current.revoked
        ?? (current.kind == "Non-Consumable"
          ? ordered.compactMap(\.revoked).filter { $0 > current.start }.min() : nil)
      before =
        current.kind == "Auto-Renewable Subscription"
        ? last(
          ordered.filter {
            $0.start < current.start && $0.end ?? .distantPast >= current.start && $0.revoked == nil
              && !$0.isUpgraded
          })?.product : nil
      let isOfPeriod =
        renewal.map {
          $0.signed >= current.start
            || $0.renewalDate != nil && $0.renewalDate == current.end && $0.signed >= current.start - 2 * day
        } ?? false
      renewalOfPeriod = isOfPeriod ? renewal : nil
    }
  }
}

extension SlowRows.Transaction {
  fileprivate func precedes(_ other: Self) -> Bool {
    if start != other.start { return start < other.start }
    if isUpgraded != other.isUpgraded { return isUpgraded }
    return (id.utf8.count, id) < (other.id.utf8.count, other.id)
  }
}
