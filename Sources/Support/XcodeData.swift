import Actions
import Configuration
import Customers
import Foundation
import JSON
import Ledger
import Postgres
import Subscriptions
import Work

/// Data of StoreKit tests in Xcode in the database.
package enum XcodeData {
  /// Refuses data of Xcode beside real purchases: the certificate's key is on developers' machines, so its holder could
  /// give access to any customer.
  ///
  /// - Throws: ``ConfigurationProblem`` where an app that accepts data of Xcode has production purchases; errors of the
  ///   database.
  package static func check(_ catalog: AppCatalog, in pool: PostgresPool) async throws {
    let apps = catalog.apps.filter { $0.environments.contains(.xcode) }.map(\.bundleID).sorted()
    guard !apps.isEmpty else { return }
    let rows = try await pool.query(
      """
      SELECT app.bundle_id FROM unnest(\(apps)) AS app (bundle_id)
      WHERE EXISTS (SELECT FROM subscriptions s WHERE s.bundle_id = app.bundle_id AND s.environment = 'Production')
      ORDER BY app.bundle_id LIMIT 1
      """)
    guard let app = try rows.first?.decode("bundle_id", as: String.self) else { return }
    throw ConfigurationProblem(
      "environments of \(app)",
      "has Xcode, and the database has purchases of production: a developer with Xcode's key could give access to any customer. Remove "
        + "\"Xcode\" and \"xcode\", or use a database for development")
  }
}

/// Deletes what StoreKit tests in Xcode left: purchases, trials and awards with the environment `Xcode`, and the status
/// that they gave. Needs the rights of the tables' owner.
package struct ForgetXcodeRequest: SupportRequest {
  package static let operation = SupportOperation.forgetXcode

  /// The only app; `nil` for all.
  var bundleID: String?

  package init(bundleID: String? = nil) {
    self.bundleID = bundleID
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> ForgottenXcodeData {
    let apps = try bundleID.map { [try desk.app(named: $0)] } ?? desk.catalog.apps
    var result = ForgottenXcodeData(isDryRun: isDryRun)
    do {
      for app in apps { try await desk.forget(of: app, by: author, isDryRun: isDryRun, &result) }
    } catch let error as PostgresError where error.sqlState == "42501" {
      throw SupportRefusal.forbidden(
        "The database's role may not delete purchases. Run it with the rights of the tables' owner (receiptd-admin --owner)."
      )
    }
    return result
  }
}

extension SupportDesk {
  /// Deletes purchase after purchase, each in a transaction of its own, then trials and awards.
  fileprivate func forget(
    of app: App, by author: SupportAuthor, isDryRun: Bool, _ result: inout ForgottenXcodeData
  ) async throws {
    let purchases = try await pool.query(XcodeRows.purchases(of: app))
    for row in purchases {
      let id = try row.decode("original_transaction_id", as: String.self)
      let customers = try await pool.query(XcodeRows.customers(of: id)).compactMap(XcodeRows.customer)
      try await customerTransactions.run(
        locking: Set(customers.map(\.lockName)), purchases: [id], isDryRun: isDryRun
      ) { connection, _ in
        _ = try await connection.pipeline(XcodeRows.forget(id))
        try await statusWriter.write(customers, of: app.bundleID, at: clock.now(), on: connection)
      }
      result.purchases += 1
    }
    let others = try await pool.query(XcodeRows.trialsAndGrants(of: app))
    for row in others {
      guard let customer = try XcodeRows.customer(row) else { continue }
      let counts = try await customerTransactions.run(
        locking: [customer.lockName], isDryRun: isDryRun, XcodeRows.forget(customer, of: app)
      ) { connection, answers in
        try await statusWriter.write([customer], of: app.bundleID, at: clock.now(), on: connection)
        return answers.map(\.affected)
      }
      result.trials += counts.first ?? 0
      result.grants += counts.last ?? 0
    }
    guard !isDryRun, !purchases.isEmpty || !others.isEmpty else { return }
    _ = try await pool.query(
      SupportActionRows.insert(
        [
          SupportAction(
            name: ForgetXcodeRequest.operation.rawValue, bundleID: app.bundleID,
            details: ["purchases": .integer(purchases.count), "customers": .integer(others.count)])
        ], by: author, at: clock.now()))
  }
}

/// The result of ``ForgetXcodeRequest``.
package struct ForgottenXcodeData: Encodable, Sendable, CustomStringConvertible {
  /// The deleted purchases.
  package var purchases = 0
  /// The deleted trials, a joined one by itself.
  package var trials = 0
  /// The deleted awards.
  package var grants = 0
  /// Whether nothing was written.
  let isDryRun: Bool

  init(isDryRun: Bool) {
    self.isDryRun = isDryRun
  }

  /// One line.
  package var description: String {
    "\(isDryRun ? "would delete" : "deleted") of Xcode: purchases \(purchases), trials \(trials), awards \(grants)"
  }
}

/// Rows with the environment `Xcode`. Each statement names the environment again, so that a real purchase is never
/// deleted.
private enum XcodeRows {
  static func purchases(of app: App) -> Query {
    """
    SELECT original_transaction_id FROM subscriptions
    WHERE bundle_id = \(app.bundleID) AND environment = 'Xcode' ORDER BY original_transaction_id
    """
  }

  static func customers(of purchase: String) -> Query {
    """
    SELECT user_id, device_id FROM subscriptions WHERE original_transaction_id = \(purchase)
    UNION SELECT NULL, device_id FROM purchase_devices WHERE original_transaction_id = \(purchase)
    """
  }

  static func customer(_ row: Row) throws -> Customer? {
    if let user = try row.decode("user_id", as: UUID?.self) { return .user(user) }
    return try row.decode("device_id", as: String?.self).map { .device($0) }
  }

  static func forget(_ purchase: String) -> [Query] {
    let isXcode: StaticString = "EXISTS (SELECT FROM subscriptions s WHERE s.original_transaction_id"
    return [
      """
      DELETE FROM purchase_devices d WHERE d.original_transaction_id = \(purchase)
        AND \(unescaped: isXcode) = d.original_transaction_id AND s.environment = 'Xcode')
      """,
      """
      DELETE FROM lifecycle_events e WHERE e.original_transaction_id = \(purchase) AND e.environment = 'Xcode'
      """,
      "DELETE FROM transactions WHERE original_transaction_id = \(purchase) AND environment = 'Xcode'",
      "DELETE FROM renewals WHERE original_transaction_id = \(purchase) AND environment = 'Xcode'",
      "DELETE FROM subscriptions WHERE original_transaction_id = \(purchase) AND environment = 'Xcode'",
    ]
  }

  static func trialsAndGrants(of app: App) -> Query {
    """
    SELECT NULL::uuid AS user_id, device_id FROM trials WHERE bundle_id = \(app.bundleID) AND environment = 'Xcode'
    UNION SELECT user_id, device_id FROM grants WHERE bundle_id = \(app.bundleID) AND environment = 'Xcode'
    """
  }

  static func forget(_ customer: Customer, of app: App) -> [Query] {
    [
      """
      DELETE FROM trials WHERE bundle_id = \(app.bundleID) AND environment = 'Xcode' AND device_id = \(customer.deviceID)::text
      """,
      """
      DELETE FROM grants WHERE bundle_id = \(app.bundleID) AND environment = 'Xcode'
        AND (user_id = \(customer.userID)::uuid OR device_id = \(customer.deviceID)::text)
      """,
    ]
  }
}
