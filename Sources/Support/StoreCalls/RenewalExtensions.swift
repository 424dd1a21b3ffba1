import Actions
import AppStore
import Customers
import Foundation
import JSON
import Ledger
import Logging
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// Extensions of renewal dates, which support asks the App Store for: of one subscription, or of all active subscribers
/// of a product.
///
/// A request is stored with its `requestIdentifier` before it is sent. The new renewal dates come as notifications.
///
/// After a crash the App Store takes a repeated request for all subscribers as the same one. Apple does not say so of a
/// request for one subscription. So the expiry is read from the App Store before the first request, and that request is
/// repeated only while the App Store has the same expiry. The stored expiry would not do: a notification may be lost.
package struct RenewalExtensions: Sendable {
  let desk: SupportDesk
  /// Waits longer than a request, because jobs and commands can.
  let apis: [String: AppStoreServerAPI]

  var pool: PostgresPool { desk.pool }
  var clock: ServiceClock { desk.clock }

  /// Apple's limits.
  static let days = 1...90
  static let reasonCodes = 0...3

  /// Extends one subscription.
  ///
  /// - Parameter isForced: whether to extend a subscription again that was extended within a day. Without it a command
  ///   that is repeated by mistake would use up both of Apple's extensions.
  /// - Throws: ``SupportRefusal``, also with the App Store's reason; `Problem` `store_unavailable`, after which the
  ///   same call continues; errors of the database.
  package func extend(
    _ originalTransactionID: String, days: Int, reasonCode: Int, isDryRun: Bool = false,
    isForced: Bool = false, by author: SupportAuthor
  ) async throws -> RenewalExtension {
    try Self.check(days: days, reasonCode: reasonCode)
    guard originalTransactionID.isTransactionID else {
      throw SupportRefusal.notFound("'\(originalTransactionID)' is no transaction id: 1 to 20 digits.")
    }
    guard let row = try await pool.query(SubscriptionRows.select([originalTransactionID])).first else {
      throw try await desk.unknownPurchase(originalTransactionID)
    }
    let stored = try SubscriptionRows.decode(row)
    let current = stored.subscription.current
    guard current.kind == .autoRenewable else {
      throw SupportRefusal.invalid("\(originalTransactionID) is not a subscription that renews.")
    }
    guard current.ownership == "PURCHASED" else {
      throw SupportRefusal.invalid(
        "\(originalTransactionID) is a family member's: extend the purchaser's subscription, and it follows.")
    }
    let api = try api(of: stored.bundleID)
    var asked = RenewalExtension(
      bundleID: stored.bundleID, environment: current.environment.rawValue,
      originalTransactionID: originalTransactionID, productID: current.productID, days: days,
      reasonCode: reasonCode, requestedAt: clock.now())
    asked.ownerErasedAt = stored.erasure?.ownerErasedAt
    if isDryRun {
      asked.isDryRun = true
      asked.renewsAt = current.expiresDate.map { $0 + TimeInterval(days) * 86_400 }
      return asked
    }
    if let open = try await pool.query(RenewalExtensionRows.open(originalTransactionID)).first {
      var former = try await hold(open.decode("request_identifier"), of: originalTransactionID)
      former.ownerErasedAt = asked.ownerErasedAt
      if former.isSameRequest(as: asked) { return try await carryOut(former, of: stored, api, by: author) }
      try await end(former, of: stored, api, by: author)
    }
    asked.heldUntil = asked.requestedAt + Self.commandLease
    try await start(asked, isForced: isForced, by: author)
    return try await carryOut(asked, of: stored, api, by: author)
  }

  /// For how long one process carries out a request for one subscription. Outlives the call that extends it.
  static let commandLease: TimeInterval = 60
  static let callTimeout = Duration.seconds(45)

  /// Stores a new request for one subscription, leased by this process.
  /// - Throws: ``SupportRefusal`` if another one is under way or, unless forced, ended within a day.
  private func start(
    _ asked: RenewalExtension, isForced: Bool, by author: SupportAuthor
  ) async throws {
    let id = asked.originalTransactionID ?? ""
    let yesterday = asked.requestedAt - 86_400
    try await desk.customerTransactions.run(locking: [], purchases: [id]) { connection, _ in
      let author = try await writer(author, of: asked, connection)
      let inserted = try await connection.query(
        RenewalExtensionRows.insert(asked, by: author, nextAttemptAt: asked.heldUntil))
      guard inserted.affected > 0 else {
        throw SupportRefusal.alreadyDone(
          "Another extension of \(id) is under way. Repeat it with the same options in a minute.")
      }
      if isForced { return }
      // Look after the insert: a request that was under way until the insert has an end that this query sees.
      if let row = try await connection.query(RenewalExtensionRows.done(id, since: yesterday)).first {
        let former = try RenewalExtension(row)
        throw SupportRefusal.alreadyDone(
          "\(id) was extended by \(former.days) days at \(former.requestedAt.rfc3339). To extend it again, repeat with "
            + "--force (support API: \"force\": true); Apple allows two within 365 days.")
      }
    }
  }

  /// The author that a row about one subscription names. An owner may have been erased since the command began: then
  /// the row has no reason, as if the erasure had come afterwards. The transaction holds the purchase's lock, which
  /// keeps another erasure out until it ends.
  func writer(
    _ author: SupportAuthor, of asked: RenewalExtension, _ connection: PostgresConnection
  ) async throws -> SupportAuthor {
    let id = asked.originalTransactionID ?? ""
    let rows = try await connection.query(
      "SELECT erased_at FROM subscriptions WHERE original_transaction_id = \(id)")
    let erasedAt = try rows.first?.decode("erased_at", as: Date?.self)
    guard let erasedAt, erasedAt != asked.ownerErasedAt else { return author }
    return try SupportAuthor(by: author.actor, reason: "(erased)")
  }

  /// The record in `support_actions`.
  func record(
    _ asked: RenewalExtension, _ name: String, by author: SupportAuthor, at instant: Date
  ) -> Query {
    var details: [String: JSONValue] = [
      "requestIdentifier": .string(asked.requestIdentifier), "days": .integer(asked.days),
      "reasonCode": .integer(asked.reasonCode), "productID": .string(asked.productID),
    ]
    if let person = asked.requestedBy, person != author.by { details["requestedBy"] = .string(person) }
    if let renewsAt = asked.renewsAt { details["renewsAt"] = .string(renewsAt.rfc3339) }
    if let storefronts = asked.storefronts {
      details["storefronts"] = .array(storefronts.map(JSONValue.string))
    }
    return SupportActionRows.insert(
      [
        SupportAction(
          name: name, bundleID: asked.bundleID, originalTransactionID: asked.originalTransactionID,
          details: details)
      ], by: author, at: instant)
  }

  func api(of bundleID: String) throws -> AppStoreServerAPI {
    guard let api = apis[bundleID] else {
      throw ServiceError.storeUnavailable("No App Store Connect key is configured for \(bundleID).")
    }
    return api
  }

  static func check(days: Int, reasonCode: Int) throws(SupportRefusal) {
    guard Self.days.contains(days) else { throw .invalid("'days' must be from 1 to 90, Apple's limit.") }
    guard Self.reasonCodes.contains(reasonCode) else {
      throw .invalid(
        "'reasonCode' must be 0 (undeclared), 1 (customer satisfaction), 2 (other) or 3 (service issue or outage)."
      )
    }
  }
}
