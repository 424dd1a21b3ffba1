import Actions
import Customers
import Foundation
import Identifiers
import JSON
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// Grants a customer a tier for some days from now on.
///
/// Overlapping grants do not add up: access ends with the last of them. So repeating an uncertain call is safe.
package struct GrantRequest: SupportRequest {
  package static let operation = SupportOperation.grant

  /// A user's UUID or a device id, depending on the app.
  var customer: String
  /// The app.
  var bundleID: String
  /// The tier.
  var tier: String
  /// From 1 to 36,500, of 24 hours.
  var days: Int
  /// Whether the customer may be one that was never seen.
  var force: Bool?

  package init(customer: String, bundleID: String, tier: String, days: Int, force: Bool? = nil) {
    self.customer = customer
    self.bundleID = bundleID
    self.tier = tier
    self.days = days
    self.force = force
  }

  package func run(at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool) async throws -> GrantResult
  {
    try await desk.grant(self, by: author, isDryRun: isDryRun)
  }
}

/// Revokes a grant from now on. A repeated call changes nothing. An agent may revoke own grants alone.
package struct RevokeGrantRequest: SupportRequest {
  package static let operation = SupportOperation.revokeGrant

  /// The grant's id.
  var grant: StrictUUID

  package init(grant: UUID) {
    self.grant = StrictUUID(grant)
  }

  package func run(at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool) async throws -> GrantResult
  {
    try await desk.revokeGrant(grant.value, by: author, isDryRun: isDryRun)
  }
}

extension SupportDesk {
  fileprivate func grant(
    _ request: GrantRequest, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> GrantResult {
    let (bundleID, tier, days) = (request.bundleID, request.tier, request.days)
    let app = try app(named: bundleID)
    try app.checkTier(tier)
    try checkDays(days, by: author)
    let customer = try app.customer(named: request.customer)
    let instant = clock.now()
    let grant = Grant(
      id: UUID(), tier: tier, startsAt: instant,
      endsAt: instant.addingTimeInterval(TimeInterval(days) * 86_400))
    try await customerTransactions.run(locking: [customer.lockName], isDryRun: isDryRun) { connection, _ in
      // Under the lock, because the customer may have been erased meanwhile.
      try await checkSeen(customer, of: app, isForced: request.force ?? false, on: connection)
      _ = try await connection.pipeline([
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
      try await statusWriter.write([customer], of: bundleID, at: instant, on: connection)
    }
    return GrantResult(
      StoredGrant(
        grant: grant, bundleID: bundleID, customer: customer, reason: author.reason, grantedBy: author.by),
      isDryRun: isDryRun)
  }

  fileprivate func revokeGrant(
    _ id: UUID, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> GrantResult {
    guard let row = try await pool.query(GrantRows.select(id)).first else {
      throw SupportRefusal.notFound("There is no grant \(id.uuidString.lowercased()).")
    }
    let stored = try StoredGrant(row)
    let customer = stored.customer
    // Without the app the premium status in its tables would stay.
    _ = try app(named: stored.bundleID)
    try await checkGiver(of: stored, by: author)
    let instant = clock.now()
    return try await customerTransactions.run(
      locking: [customer.lockName], isDryRun: isDryRun,
      [GrantRows.revoke(id, by: author, at: instant), GrantRows.select(id)]
    ) { connection, answers in
      guard let revoked = answers.first, let row = answers.last?.first else {
        throw ServiceError.internalError
      }
      let grant = try StoredGrant(row)
      guard !revoked.isEmpty else { return GrantResult(grant, isChanged: false, isDryRun: isDryRun) }
      _ = try await connection.query(
        SupportActionRows.insert(
          [
            SupportAction(
              name: "revoke-grant", bundleID: grant.bundleID, from: customer,
              details: ["grant": .string(id.uuidString.lowercased()), "tier": .string(grant.grant.tier)])
          ], by: author, at: instant))
      try await statusWriter.write([customer], of: grant.bundleID, at: instant, on: connection)
      return GrantResult(grant, isDryRun: isDryRun)
    }
  }

  /// Refuses an agent who did not give the grant. The record tells the giver: a name alone proves nothing.
  private func checkGiver(of stored: StoredGrant, by author: SupportAuthor) async throws {
    guard case .person(let person) = author.actor, person.role < .lead else { return }
    let given = try await pool.query(
      """
      SELECT FROM support_actions WHERE action = 'grant' AND to_customer = \(stored.customer.id)
        AND details ->> 'grant' = \(stored.grant.id.uuidString.lowercased()) AND person_id = \(person.id)
      """)
    guard given.isEmpty else { return }
    throw SupportRefusal.forbidden(
      "An agent may revoke own grants alone. This one is by \(stored.grantedBy), and \(person.name) has the role "
        + "\(person.role.rawValue). A lead may revoke it.")
  }
}

/// The result of granting a tier or of revoking a grant.
package struct GrantResult: Encodable, Sendable, CustomStringConvertible {
  /// The grant's id, for `revoke-grant`.
  let grant: String
  /// The app.
  let bundleID: String
  /// The user or device that has the grant.
  let customer: String
  /// The granted tier.
  let tier: String
  /// When it begins.
  let startsAt: Date
  /// When it ends; `null` for no end.
  @Nullable var endsAt: Date?
  /// The author's reason.
  let reason: String
  /// The author.
  let grantedBy: String
  /// When it was revoked; `null` if it was not.
  @Nullable var revokedAt: Date?
  /// The author of the revocation.
  @Nullable var revokedBy: String?
  /// Whether this call changed something, or would.
  let isChanged: Bool
  /// Whether nothing was written. Then the id of a new grant is not the one that it would get.
  let isDryRun: Bool

  init(_ stored: StoredGrant, isChanged: Bool = true, isDryRun: Bool) {
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
    self.isDryRun = isDryRun
  }

  /// One line.
  package var description: String {
    if let revokedAt {
      let verb = isChanged ? "revoked" : "already revoked"
      return "grant \(grant): \(tier) for \(customer) \(verb) at \(revokedAt.rfc3339) by \(revokedBy ?? "?")"
    }
    return "grant \(grant): \(tier) for \(customer) \(endsAt.map { "until \($0.rfc3339)" } ?? "without end")"
  }
}
