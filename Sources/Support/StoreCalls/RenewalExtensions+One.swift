import Actions
import AppStore
import Customers
import Deliveries
import Foundation
import Postgres
import Requests
import Subscriptions
import Work

/// Extends the renewal date of one subscription.
package struct ExtendRenewalRequest: SupportRequest {
  package static let operation = SupportOperation.extendRenewal

  /// The subscription.
  var originalTransactionID: String
  /// 1 to 90.
  var days: Int
  /// Apple's `extendReasonCode`, 0 to 3.
  var reasonCode: Int
  /// Whether to extend a subscription again that was extended within a day.
  var force: Bool?

  package init(originalTransactionID: String, days: Int, reasonCode: Int, force: Bool? = nil) {
    self.originalTransactionID = originalTransactionID
    self.days = days
    self.reasonCode = reasonCode
    self.force = force
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> RenewalExtension {
    try await desk.renewalExtensions.extend(
      originalTransactionID, days: days, reasonCode: reasonCode, isDryRun: isDryRun,
      isForced: force ?? false, by: author)
  }
}

// The stored request for one subscription, from its lease to its end.
extension RenewalExtensions {
  /// The outcome of the earlier attempts of a request.
  private enum Outcome {
    /// The App Store did not extend the subscription, or no request was sent.
    case notCarriedOut
    /// The expiry has moved.
    case moved
    /// The period ended at its former date, and the subscription renewed.
    case renewed
  }

  /// Leases a request that has not ended.
  /// - Throws: ``SupportRefusal`` while another process holds it, and for a minute after an attempt without an answer.
  func hold(_ identifier: UUID, of originalTransactionID: String) async throws -> RenewalExtension {
    let lease = WorkLease(at: clock.now(), for: Self.commandLease)
    let rows = try await pool.query(
      RenewalExtensionRows.ofOne.claim(identifier, lease, returning: RenewalExtensionRows.columns))
    guard let row = rows.first else { throw Self.isUnderWay(originalTransactionID) }
    return try RenewalExtension(row)
  }

  private static func isUnderWay(_ originalTransactionID: String) -> SupportRefusal {
    .alreadyDone(
      "An extension of \(originalTransactionID) is under way. Repeat it with the same options in a minute to learn its end."
    )
  }

  /// Sends a leased request, unless an earlier attempt has extended the subscription.
  func carryOut(
    _ asked: RenewalExtension, of stored: StoredSubscription, _ api: AppStoreServerAPI,
    by author: SupportAuthor
  ) async throws -> RenewalExtension {
    let expiry = try await expiryAtStore(for: asked, of: stored, api, by: author)
    switch try await outcome(of: asked, expiry) {
    case .moved: return try await finish(asked, renewsAt: expiry, by: author)
    case .renewed: return try await finish(asked, error: Self.renewed, by: author)
    case .notCarriedOut: break
    }
    var begun = asked
    begun.heldUntil = clock.now() + Self.commandLease
    let rows = try await pool.query(
      RenewalExtensionRows.begin(asked, expiresAt: expiry, until: begun.heldUntil))
    guard rows.affected == 1 else { throw Self.isUnderWay(stored.originalTransactionID) }
    return try await send(
      begun, to: api.with(timeout: Self.callTimeout, maximumAge: .zero), by: author)
  }

  /// Ends a leased request with what the App Store shows of it, because another one follows.
  func end(
    _ former: RenewalExtension, of stored: StoredSubscription, _ api: AppStoreServerAPI,
    by author: SupportAuthor
  ) async throws {
    guard former.expiresBefore != nil else {
      try await write(former, error: "it was not sent", by: author)
      return
    }
    let expiry = try await expiryAtStore(for: former, of: stored, api, by: author)
    switch try await outcome(of: former, expiry) {
    case .moved: _ = try await finish(former, renewsAt: expiry, by: author)
    case .renewed: try await write(former, error: Self.renewed, by: author)
    case .notCarriedOut:
      try await write(former, error: "the App Store did not carry it out", by: author)
    }
  }

  private static let renewed = "the subscription renewed at its former date, so it was not extended"

  private func outcome(of asked: RenewalExtension, _ expiry: Date) async throws -> Outcome {
    guard let before = asked.expiresBefore, abs(expiry.timeIntervalSince(before)) > 1 else {
      return .notCarriedOut
    }
    let rows = try await pool.query(
      RenewalExtensionRows.hasPeriod(of: asked.originalTransactionID ?? "", endingAt: before))
    return try rows[0].decode("found") ? .renewed : .moved
  }

  /// The subscription's end as the App Store has it now; its answer is recorded.
  /// - Throws: `Problem` `store_unavailable`, ``SupportRefusal`` if the App Store does not know the subscription;
  ///   errors of the database.
  private func expiryAtStore(
    for asked: RenewalExtension, of stored: StoredSubscription, _ api: AppStoreServerAPI,
    by author: SupportAuthor
  ) async throws -> Date {
    let id = stored.originalTransactionID
    var reason = "the App Store told none"
    do {
      let app = try desk.app(named: stored.bundleID)
      let refresh = PurchaseRefresh(signed: desk.signed, ledger: desk.ledger, pool: pool, clock: clock)
      let told = try await refresh.refresh(id, of: app, in: asked.storeEnvironment, from: api)
      let row = try await pool.query(SubscriptionRows.select([id])).first
      if told.contains(where: { $0.originalTransactionID == id }), let row,
        let expiry = try SubscriptionRows.decode(row).subscription.current.expiresDate
      {
        return expiry
      }
    } catch let error as AppStoreServerError {
      if asked.expiresBefore == nil, error.isRefusal {
        _ = try await finish(asked, error: error.sentence, by: author)
      }
      reason = error.reason
    }
    if asked.expiresBefore == nil {
      try await write(asked, error: "not sent: the renewal date could not be read: \(reason)", by: author)
    } else {
      try await postpone(asked, until: clock.now(), because: reason)
    }
    throw ServiceError.storeUnavailable(
      "The renewal date of \(id) cannot be read: \(reason). Nothing was sent; repeat this in a minute.")
  }

  private func send(
    _ asked: RenewalExtension, to api: AppStoreServerAPI, by author: SupportAuthor
  ) async throws -> RenewalExtension {
    let id = asked.originalTransactionID ?? ""
    let answer: ExtendRenewalDateResponse
    do throws(AppStoreServerError) {
      answer = try await api.extendRenewalDate(
        originalTransactionID: id,
        ExtendRenewalDateRequest(
          extendByDays: Int32(asked.days), extendReasonCode: asked.code,
          requestIdentifier: asked.requestIdentifier),
        in: asked.storeEnvironment)
    } catch {
      if error.isRefusal { return try await finish(asked, error: error.sentence, by: author) }
      // Without an answer the App Store may still carry it out, and must be asked later.
      let wait = error.mayBeCarriedOut ? Self.commandLease : 0
      try await postpone(asked, until: clock.now() + wait, because: error.reason)
      throw ServiceError.storeUnavailable(
        error.mayBeCarriedOut
          ? "Whether \(id) was extended is unknown: \(error.reason). Repeat this in a minute: it is sent again only if "
            + "the renewal date has not moved."
          : "\(id) was not extended: \(error.reason). Repeat this.")
    }
    let error = answer.success == false ? "the App Store did not extend it" : nil
    return try await finish(asked, renewsAt: answer.effectiveDate, error: error, by: author)
  }

  /// Writes when a leased request may be sent again.
  /// - Throws: ``SupportRefusal`` if another process took the request meanwhile; errors of the database.
  private func postpone(_ asked: RenewalExtension, until next: Date, because reason: String) async throws {
    let rows = try await pool.query(RenewalExtensionRows.postpone(asked, until: next, because: reason))
    guard rows.affected == 1 else { throw Self.isUnderWay(asked.originalTransactionID ?? "") }
  }

  /// Writes the end of a request.
  /// - Throws: ``SupportRefusal`` if the subscription was not extended, or another process took the request meanwhile;
  ///   errors of the database.
  private func finish(
    _ asked: RenewalExtension, renewsAt: Date? = nil, error: String? = nil, by author: SupportAuthor
  ) async throws -> RenewalExtension {
    let ended = try await write(asked, renewsAt: renewsAt, error: error, by: author)
    if let error {
      throw SupportRefusal.invalid("\(ended.originalTransactionID ?? "") was not extended: \(error).")
    }
    return ended
  }

  @discardableResult
  private func write(
    _ asked: RenewalExtension, renewsAt: Date? = nil, error: String?, by author: SupportAuthor
  ) async throws -> RenewalExtension {
    var ended = asked
    let instant = clock.now()
    ended.completedAt = instant
    ended.renewsAt = renewsAt
    ended.error = error
    if error == nil { ended.acceptedAt = instant }
    let (id, completed) = (ended.originalTransactionID ?? "", ended)
    try await desk.customerTransactions.run(locking: [], purchases: [id]) { connection, _ in
      let author = try await writer(author, of: completed, connection)
      let rows = try await connection.query(RenewalExtensionRows.complete(completed, at: instant))
      guard rows.affected == 1 else { throw Self.isUnderWay(id) }
      guard error == nil else { return }
      _ = try await connection.query(record(completed, "extend-renewal", by: author, at: instant))
    }
    return ended
  }
}
