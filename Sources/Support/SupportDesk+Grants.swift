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
    let effect: GrantEffect? = try await customerTransactions.run(
      locking: [customer.lockName], isDryRun: isDryRun
    ) { connection, _ in
      // Under the lock, because the customer may have been erased meanwhile.
      try await checkSeen(customer, of: app, isForced: request.force ?? false, on: connection)
      let before =
        isDryRun ? try await GrantEffect.Access(of: customer, in: app, at: instant, connection) : nil
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
      guard let before else { return nil }
      return GrantEffect(
        before: before, after: try await GrantEffect.Access(of: customer, in: app, at: instant, connection),
        grant: grant)
    }
    return GrantResult(
      StoredGrant(
        grant: grant, bundleID: bundleID, customer: customer, reason: author.reason, grantedBy: author.by),
      effect: effect, isDryRun: isDryRun)
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
      // Under the lock, because the customer may have been erased meanwhile.
      try await checkNotErased(grant.customer.id, connection)
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

/// What a grant would change for its customer.
struct GrantEffect: Sendable {
  /// What the customer has at one instant.
  struct Access: Sendable {
    let tier: String?
    let status: String
    let isOpen: Bool
    /// When access ends if nothing new arrives; `nil` for no access or no end.
    let until: Date?
    let because: String
    /// The grant that decides.
    let grant: UUID?

    init(
      of customer: Customer, in app: App, at instant: Date, _ connection: PostgresConnection
    ) async throws {
      let (entitlements, records): (Entitlements, CustomerRecords)
      if let access = try await connection.access(
        of: [customer.deviceID].compactMap(\.self), in: app, at: instant)[customer.id]
      {
        (entitlements, records) = (access.entitlements, access.records)
      } else {
        let users = [customer.userID].compactMap(\.self)
        records = try await connection.customerRecords(users: users)
          .customerRecords(of: customer, in: app, at: instant)
        entitlements = app.entitlements(of: records, for: customer, at: instant)
      }
      tier = entitlements.tier
      status = entitlements.status.rawValue
      isOpen = entitlements.isAccessGranted
      // A child's device may have its parent's access and none of its own.
      let isOwn = app.entitlements(of: records, for: customer, at: instant).isAccessGranted
      until =
        isOwn
        ? app.accessEnd(of: records, for: customer, after: instant)
        : isOpen ? entitlements.validUntil : nil
      because = entitlements.explanation(notes: [], past: nil, plans: [:], at: instant)
      if case .grant(let grant) = entitlements.source { self.grant = grant.id } else { grant = nil }
    }
  }

  let before: Access
  let after: Access
  let grant: Grant

  /// Lines for a person.
  var description: String {
    var output = TerminalText()
    output.line("before: \(before.words)", indent: 0, hanging: 8)
    output.line("after:  \(after.words)", indent: 0, hanging: 8)
    guard after.grant != grant.id else { return output.text }
    let ends = [before.until, after.until].map { $0 ?? .distantFuture }
    let later =
      ends[1] > ends[0]
      ? " It begins to count at \(ends[0].rfc3339)." : " It ends before what the customer has anyway."
    output.line(
      "NO EFFECT while \(before.because): that opens as much or more.\(later)", indent: 0, hanging: 8)
    return output.text
  }
}

extension GrantEffect.Access {
  fileprivate var words: String {
    guard isOpen else { return "no access (\(status)), because \(because)" }
    let end = until.map { "until \($0.rfc3339)" } ?? "without end"
    return "\(tier.map { "\($0), " } ?? "")\(status), \(end), because \(because)"
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
  /// What a grant would change; `nil` if it was written, and for a revocation. In words only.
  let effect: GrantEffect?

  private enum CodingKeys: CodingKey {
    case grant, bundleID, customer, tier, startsAt, endsAt, reason, grantedBy, revokedAt, revokedBy, isChanged
    case isDryRun
  }

  init(_ stored: StoredGrant, effect: GrantEffect? = nil, isChanged: Bool = true, isDryRun: Bool) {
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
    self.effect = effect
  }

  /// One line, and what it would change.
  package var description: String {
    if let revokedAt {
      let verb = isChanged ? "revoked" : "already revoked"
      return "grant \(grant): \(tier) for \(customer) \(verb) at \(revokedAt.rfc3339) by \(revokedBy ?? "?")"
    }
    let end = endsAt.map { "until \($0.rfc3339)" } ?? "without end"
    return "grant \(grant): \(tier) for \(customer) \(end)\(effect.map { "\n\($0.description)" } ?? "")"
  }
}
