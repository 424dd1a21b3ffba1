import Foundation
import Subscriptions

/// The result of granting a tier or of revoking a grant.
public struct GrantResult: Encodable, Sendable, CustomStringConvertible {
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
  /// Whether this call changed something.
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
      let verb = isChanged ? "revoked" : "already revoked"
      return "grant \(grant): \(tier) for \(customer) \(verb) at \(revokedAt.rfc3339) by \(revokedBy ?? "?")"
    }
    return "grant \(grant): \(tier) for \(customer) \(endsAt.map { "until \($0.rfc3339)" } ?? "without end")"
  }
}
