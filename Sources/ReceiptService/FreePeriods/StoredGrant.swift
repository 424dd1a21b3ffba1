import Foundation
import Postgres
import Subscriptions

/// A row of `grants`: the grant, its customer, and the records for support.
struct StoredGrant: Sendable {
  var grant: Grant
  var bundleID: String
  var customer: Customer
  var reason: String
  var grantedBy: String
  var revokedAt: Date?
  var revokedBy: String?

  init(
    grant: Grant, bundleID: String, customer: Customer, reason: String, grantedBy: String,
    revokedAt: Date? = nil, revokedBy: String? = nil
  ) {
    self.grant = grant
    self.bundleID = bundleID
    self.customer = customer
    self.reason = reason
    self.grantedBy = grantedBy
    self.revokedAt = revokedAt
    self.revokedBy = revokedBy
  }

  /// Decodes a row of ``GrantRows``.
  init(_ row: Row) throws {
    guard let customer = try Customer(row) else { throw UnreadableRow(column: "user_id") }
    self.init(
      grant: try Grant(row), bundleID: try row.decode("bundle_id"), customer: customer,
      reason: try row.decode("reason"), grantedBy: try row.decode("granted_by"),
      revokedAt: try row.decode("revoked_at"), revokedBy: try row.decode("revoked_by"))
  }
}
