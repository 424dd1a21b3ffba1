import FoundationEssentials
import Postgres
import Subscriptions

extension SupportDesk {
  /// Gives a customer a tier for a time, beginning now.
  ///
  /// What is given twice holds until the later end; nothing adds up, so whoever is not sure may do it again.
  ///
  /// - Parameters:
  ///   - customer: a user's UUID or a device's name, whichever the app's customers are.
  ///   - days: from 1 to 36,500, of 24 hours.
  /// - Throws: ``SupportRefusal``, and what the database throws.
  public func grant(
    to customer: String, bundleID: String, tier: String, days: Int, by author: SupportAuthor
  ) async throws -> GrantAnswer {
    let app = try app(named: bundleID)
    try app.checkTier(tier)
    try checkDays(days)
    let customer = try app.customer(named: customer)
    let instant = clock.now()
    let grant = Grant(
      id: UUID(), tier: tier, startsAt: instant,
      endsAt: instant.addingTimeInterval(TimeInterval(days) * 86_400))
    try await pool.withTransaction { connection in
      _ = try await connection.pipeline([
        CustomerFollowUp.lock([customer]),
        GrantRows.insert(grant, to: customer, of: app, by: author),
        SupportActionRows.insert(
          [
            SupportAction(
              name: "grant", bundleID: bundleID, to: customer,
              details: [
                "grant": .string(grant.id.uuidString.lowercased()), "tier": .string(tier),
                "days": .integer(days),
              ])
          ], by: author, at: instant),
      ])
      try await followUp.write([customer], of: bundleID, at: instant, on: connection)
    }
    return GrantAnswer(
      StoredGrant(
        grant: grant, bundleID: bundleID, customer: customer, reason: author.reason, grantedBy: author.by))
  }

  /// Takes a grant back, from now on. One that was taken back before stays as it is.
  /// - Throws: ``SupportRefusal`` for a grant that is not there, and what the database throws.
  public func revokeGrant(_ id: UUID, by author: SupportAuthor) async throws -> GrantAnswer {
    guard let row = try await pool.query(GrantRows.select(id)).first else {
      throw SupportRefusal.notFound("There is no grant \(id.uuidString.lowercased()).")
    }
    let customer = try GrantRows.decode(row).customer
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        CustomerFollowUp.lock([customer]), GrantRows.revoke(id, by: author, at: instant),
        GrantRows.select(id),
      ])
      guard let row = answers[2].first else { throw ServiceError.internalError }
      let grant = try GrantRows.decode(row)
      guard !answers[1].isEmpty else { return GrantAnswer(grant, isChanged: false) }
      _ = try await connection.query(
        SupportActionRows.insert(
          [
            SupportAction(
              name: "revoke-grant", bundleID: grant.bundleID, from: customer,
              details: ["grant": .string(id.uuidString.lowercased()), "tier": .string(grant.grant.tier)])
          ], by: author, at: instant))
      try await followUp.write([customer], of: grant.bundleID, at: instant, on: connection)
      return GrantAnswer(grant)
    }
  }
}

/// A grant, as support reads it.
public struct GrantAnswer: Encodable, Sendable, CustomStringConvertible {
  /// The grant's id, which `revoke-grant` takes.
  let grant: String
  /// The app.
  let bundleID: String
  /// The user or device that it was given to.
  let customer: String
  /// What it opens.
  let tier: String
  /// From when.
  let startsAt: Date
  /// Until when; `null` for good.
  @Nullable var endsAt: Date?
  /// Why.
  let reason: String
  /// Who gave it.
  let grantedBy: String
  /// When it was taken back; `null` where it was not.
  @Nullable var revokedAt: Date?
  /// Who took it back.
  @Nullable var revokedBy: String?
  /// Whether this call did something; it had been done already otherwise.
  let isChanged: Bool

  init(_ stored: StoredGrant, isChanged: Bool = true) {
    grant = stored.grant.id.uuidString.lowercased()
    bundleID = stored.bundleID
    customer = stored.customer.id
    tier = stored.grant.tier
    startsAt = stored.grant.startsAt
    endsAt = stored.grant.endsAt
    reason = stored.reason
    grantedBy = stored.grantedBy
    revokedAt = stored.revokedAt
    revokedBy = stored.revokedBy
    self.isChanged = isChanged
  }

  /// One line.
  public var description: String {
    if let revokedAt {
      let verb = isChanged ? "revoked" : "had been revoked already"
      return "grant \(grant): \(tier) for \(customer) \(verb) at \(revokedAt.inWords) by \(revokedBy ?? "?")"
    }
    return "grant \(grant): \(tier) for \(customer) \(endsAt.map { "until \($0.inWords)" } ?? "for good")"
  }
}
