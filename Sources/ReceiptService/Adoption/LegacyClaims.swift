import Foundation
import Postgres
import Subscriptions

/// Reads the claims that the legacy tables make for customers of one app.
struct LegacyClaims: Sendable {
  let app: App
  let modes: ClientWriteModes
  let pool: PostgresPool
  let clock: ServiceClock

  /// All claims of the tables that belong to the app.
  func read() async throws -> [LegacyClaim] {
    var claims: [LegacyClaim] = []
    if app.customer == .user {
      if app.writeTo.contains(.profiles) { claims += try await profiles() }
      if app.writeTo.contains(.userPreferences) { claims += try await userPreferences() }
    } else {
      claims += try await subscriptions()
    }
    return claims
  }

  private func profiles() async throws -> [LegacyClaim] {
    var claims: [LegacyClaim] = []
    var last: UUID?
    let instant = clock.now()
    while true {
      let rows = try await pool.query(AdoptionRows.profiles(after: last, at: instant))
      var unnamed: [LegacyClaim] = []
      for row in rows {
        let user = try row.decode("user_id", as: UUID.self)
        last = user
        let product = try row.decode("premium_product_id", as: String?.self)
        guard isMine(product, in: .profiles) else { continue }
        if let id = try row.decode("premium_original_transaction_id", as: String?.self), !id.isEmpty {
          claims.append(LegacyClaim(key: .init(customer: .user(user), transactionID: id), source: .profiles))
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
      claims += try await unknown(unnamed)
      if rows.count < AdoptionRows.page { return claims }
    }
  }

  private func userPreferences() async throws -> [LegacyClaim] {
    var claims: [LegacyClaim] = []
    var last: UUID?
    guard isMine(nil, in: .userPreferences),
      let award = award(nil, until: nil, because: "legacy: is_premium = true in user_preferences")
    else { return [] }
    while true {
      let users = try await pool.query(AdoptionRows.userPreferences(after: last)).map {
        try $0.decode("user_id", as: UUID.self)
      }
      last = users.last
      claims += try await unknown(
        users.map {
          LegacyClaim(
            key: .init(customer: .user($0), transactionID: ""), source: .userPreferences, award: award)
        })
      if users.count < AdoptionRows.page { return claims }
    }
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
          let device = try? DeviceID(try row.decode("device_id", as: String.self))
        else { continue }
        claims.append(
          LegacyClaim(key: .init(customer: .device(device.name), transactionID: last), source: .subscriptions)
        )
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

  /// The claims of users of whom receiptd knows no purchase that counts and no grant. What it knows decides for the others.
  private func unknown(_ claims: [LegacyClaim]) async throws -> [LegacyClaim] {
    guard !claims.isEmpty else { return [] }
    let known = Set(
      try await pool.query(
        AdoptionRows.known(claims.compactMap(\.key.customer.userID), in: app, at: clock.now())
      ).map {
        try $0.decode("user_id", as: UUID.self)
      })
    return claims.filter { claim in claim.key.customer.userID.map { !known.contains($0) } ?? false }
  }

  private func award(_ productID: String?, until end: Date?, because reason: String) -> LegacyClaim.Award? {
    let tier =
      productID.flatMap { app.product(named: $0)?.tier }
      ?? app.tiers.values.max { ($0.rank, $0.name) < ($1.rank, $1.name) }?.name
    return tier.map { LegacyClaim.Award(tier: $0, endsAt: end, reason: reason) }
  }
}
