import Configuration
import Customers
import Foundation
import Postgres
import Proofs
import Subscriptions
import Text
import Work

/// Reads the claims that the legacy tables make for customers of one app.
struct LegacyClaims: Sendable {
  let app: App
  let modes: ClientWriteModes
  let pool: PostgresPool
  let clock: ServiceClock
  /// The start of the first adoption, by the database's clock; `nil` if this is the first.
  let firstRuns: [String: Date]
  /// See ``Adoption/clientAwardDays``.
  let clientAwardDays: Int?

  /// The claims of the tables that belong to the app, and the users whose claim without a transaction id is none:
  /// receiptd has decided that they have no access.
  struct Reading: Sendable {
    var claims: [LegacyClaim] = []
    var denied: [UUID] = []
    /// The users whose claim without a transaction id gets no award: after the first adoption a client wrote it, or
    /// nothing tells that the app's backend did.
    var withheld: [UUID] = []
    /// The users with a row that waits for receiptd's status, such as that of a customer who was erased.
    var waiting: [UUID] = []
    /// Those among them whose row may have a claim from before receiptd.
    var waitingClaims: [LegacyClaim] = []

    static func += (all: inout Reading, part: Reading) {
      all.claims += part.claims
      all.denied += part.denied
      all.withheld += part.withheld
      all.waiting += part.waiting
      all.waitingClaims += part.waitingClaims
    }
  }

  /// Reads all tables of the app.
  func read() async throws -> Reading {
    var claims = Reading()
    if app.customer == .user {
      if app.writeTo.contains(.profiles) { claims += try await profiles() }
      if app.writeTo.contains(.userPreferences) { claims += try await userPreferences() }
    } else {
      claims.claims = try await subscriptions()
    }
    return claims
  }

  func profiles() async throws -> Reading {
    var claims = Reading()
    var last: UUID?
    let instant = clock.now()
    let others = modes.bundleIDs(notWritingTo: [.profiles])
    while true {
      let rows = try await pool.query(AdoptionRows.profiles(after: last, others: others, at: instant))
      let waiting = try await waiting(rows, in: .profiles)
      var unnamed: [LegacyClaim] = []
      for row in rows {
        let user = try row.decode("user_id", as: UUID.self)
        last = user
        let product = try row.decode("premium_product_id", as: String?.self)
        guard isMine(product, in: .profiles) else { continue }
        if let isDecided = waiting[user] {
          claims.waiting.append(user)
          if !isDecided { claims.waitingClaims.append(unnamedClaim(of: user, .profiles)) }
          continue
        }
        if try row.decode("names_grant", as: Bool.self) {
          unnamed.append(LegacyClaim(key: .init(customer: .user(user), transactionID: ""), source: .profiles))
          continue
        }
        if let id = try row.decode("premium_original_transaction_id", as: String?.self), !id.isEmpty {
          claims.claims.append(
            LegacyClaim(key: .init(customer: .user(user), transactionID: id), source: .profiles))
          continue
        }
        let expiry = try row.decode("premium_expires_at", as: Date?.self)
        let until = expiry.map { "until \($0.rfc3339)" } ?? "without end"
        if let award = award(
          product, until: expiry, because: "legacy: premium \(until) in profiles, without a transaction id")
        {
          unnamed.append(
            LegacyClaim(
              key: .init(customer: .user(user), transactionID: ""), source: .profiles, award: award))
        }
      }
      claims += try await undecided(unnamed, in: .profiles)
      if rows.count < AdoptionRows.page { return claims }
    }
  }

  private func userPreferences() async throws -> Reading {
    var claims = Reading()
    var last: UUID?
    guard isMine(nil, in: .userPreferences),
      let award = award(nil, until: nil, because: "legacy: is_premium = true in user_preferences")
    else { return claims }
    while true {
      let rows = try await pool.query(AdoptionRows.userPreferences(after: last))
      let waiting = try await waiting(rows, in: .userPreferences)
      let users = try rows.map { try $0.decode("user_id", as: UUID.self) }
      last = users.last
      claims.waiting += users.filter { waiting[$0] != nil }
      claims.waitingClaims += users.filter { waiting[$0] == false }.map {
        unnamedClaim(of: $0, .userPreferences)
      }
      let unnamed = users.filter { waiting[$0] == nil }.map {
        LegacyClaim(
          key: .init(customer: .user($0), transactionID: ""), source: .userPreferences, award: award)
      }
      claims += try await undecided(unnamed, in: .userPreferences)
      if users.count < AdoptionRows.page { return claims }
    }
  }

  /// The users of these rows that wait for receiptd's status, and whether it replaces every claim.
  private func waiting(_ rows: Rows, in table: ProfileTable) async throws -> [UUID: Bool] {
    let users = try rows.map { try $0.decode("user_id", as: UUID.self) }
    return try await pool.query(AdoptionRows.waiting(users, in: table)).reduce(into: [:]) {
      $0[try $1.decode("user_id", as: UUID.self)] = try $1.decode("is_decided", as: Bool.self)
    }
  }

  private func unnamedClaim(of user: UUID, _ source: LegacyClaim.Source) -> LegacyClaim {
    LegacyClaim(key: .init(customer: .user(user), transactionID: ""), source: source)
  }

  private func subscriptions() async throws -> [LegacyClaim] {
    var claims: [LegacyClaim] = []
    var last = ""
    while true {
      let rows = try await pool.query(AdoptionRows.subscriptions(after: last))
      for row in rows {
        last = try row.decode("original_transaction_id")
        let product = try row.decode("product_id", as: String?.self)
        let devices = modes.catalog.apps.filter { $0.customer == .device }
        guard seller(of: product, among: devices)?.bundleID == app.bundleID,
          let device = try row.decode("device_id", as: String?.self), !device.isEmpty
        else { continue }
        claims.append(
          LegacyClaim(
            key: .init(customer: .device(DeviceID.normalized(device)), transactionID: last),
            source: .subscriptions))
      }
      if rows.count < AdoptionRows.page { return claims }
    }
  }

  /// Whether a claim in a table that several apps write is one of this app.
  private func isMine(_ productID: String?, in table: ProfileTable) -> Bool {
    seller(of: productID, among: modes.apps(writingTo: table))?.bundleID == app.bundleID
  }

  private func seller(of productID: String?, among apps: [App]) -> App? {
    apps.startingWithSeller(of: productID).first
  }

  /// The claims of users about whom receiptd has decided nothing. What it knows decides for the others: a client's word
  /// gives no award to a customer whose purchase was refunded, or whose claim was false. Nor does a row with a grant
  /// that receiptd does not know, which is a claim without an award.
  private func undecided(_ claims: [LegacyClaim], in table: ProfileTable) async throws -> Reading {
    guard !claims.isEmpty else { return Reading() }
    let users = claims.compactMap(\.key.customer.userID)
    var hasAccess: [UUID: Bool] = [:]
    for claim in claims where claim.award == nil {
      if let user = claim.key.customer.userID { hasAccess[user] = false }
    }
    let standing = AdoptionRows.standing(
      of: users, in: app, on: table, modes: modes, at: clock.now())
    for row in try await pool.query(standing) {
      hasAccess[try row.decode("user_id")] = try row.decode("has_access", as: Bool.self)
    }
    let open = claims.filter { claim in claim.key.customer.userID.map { hasAccess[$0] == nil } ?? false }
    let denied = users.filter { hasAccess[$0] == false }
    guard let firstRun = firstRuns[table.destination.rawValue], !open.isEmpty else {
      return Reading(claims: open, denied: denied)
    }
    let claimants = open.compactMap(\.key.customer.userID)
    func found(_ query: Postgres.Query) async throws -> Set<UUID> {
      Set(try await pool.query(query).map { try $0.decode("user_id", as: UUID.self) })
    }
    let writers = try await found(AdoptionRows.writers(claimants, of: table, after: firstRun))
    let backed = try await found(AdoptionRows.backed(claimants, of: app, in: table))
    var reading = Reading(denied: denied)
    for claim in open {
      guard let user = claim.key.customer.userID else { continue }
      if !writers.contains(user) {
        if backed.contains(user) { reading.claims.append(claim) } else { reading.withheld.append(user) }
      } else if let claim = ofClient(claim, in: table) {
        reading.claims.append(claim)
      } else {
        reading.withheld.append(user)
      }
    }
    return reading
  }

  /// A claim that a client wrote after the first adoption, with an award that ends; `nil` if it gets none.
  ///
  /// Any client of a table that accepts writes can make such a claim. Where claims name transactions, an honest client
  /// would have named one.
  private func ofClient(_ claim: LegacyClaim, in table: ProfileTable) -> LegacyClaim? {
    guard !table.claimsNameTransactions, let days = clientAwardDays, var award = claim.award else {
      return nil
    }
    let end = clock.now() + Double(days) * 86_400
    award.endsAt = min(award.endsAt ?? end, end)
    var claim = claim
    (claim.award, claim.isOfClient) = (award, true)
    return claim
  }

  private func award(_ productID: String?, until end: Date?, because reason: String) -> LegacyClaim.Award? {
    let tier =
      productID.flatMap { app.product(named: $0)?.tier }
      ?? app.tiers.values.max { ($0.rank, $0.name) < ($1.rank, $1.name) }?.name
    return tier.map { LegacyClaim.Award(tier: $0, endsAt: end, reason: reason) }
  }
}

/// A claim to access that a legacy table or an imported file makes for a customer.
struct LegacyClaim: Sendable {
  /// The origin of a claim; the value of the column `source`.
  enum Source: String, Sendable, Hashable {
    case profiles
    case userPreferences = "user_preferences"
    case subscriptions
    case file
  }

  /// The identity of a claim within one app.
  struct Key: Sendable, Hashable {
    var customer: Customer
    /// The transaction that the claim names; empty if it names none.
    var transactionID: String
  }

  /// The award for a claim that names no transaction.
  struct Award: Sendable, Hashable {
    var tier: String
    /// `nil` for no end.
    var endsAt: Date?
    var reason: String
  }

  var key: Key
  var source: Source
  /// The purchase, if the file has a transaction that Apple signed.
  var purchase: ProvenPurchase?
  /// `nil` if the claim names a transaction, or a grant that receiptd does not know.
  var award: Award?
  /// Whether a client wrote it, without a transaction id, after the first adoption.
  var isOfClient = false
}
