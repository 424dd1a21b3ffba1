import AppStore
import Foundation
import Logging
import Postgres
import Subscriptions

/// Extensions of renewal dates, which support asks the App Store for: of one subscription, or of all active subscribers of
/// a product.
///
/// A request is stored with its `requestIdentifier` before it is sent. The new renewal dates come as notifications.
///
/// After a crash the App Store takes a repeated request for all subscribers as the same one. Apple does not say so of a
/// request for one subscription, so that one is repeated only if its renewal date has not moved.
public struct RenewalExtensions: Sendable {
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
  public func extend(
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
    asked.expiresBefore = current.expiresDate
    if isDryRun {
      asked.isDryRun = true
      asked.renewsAt = asked.expectedRenewal
      return asked
    }
    let open = try await pool.query(
      RenewalExtensionRows.open(originalTransactionID, since: asked.requestedAt - 86_400)
    ).first.map(
      RenewalExtension.init)
    guard let open, open.isSameRequest(as: asked) else {
      try await start(asked, isForced: isForced, by: author)
      return try await send(asked, to: api, by: author)
    }
    let leased = try await pool.query(
      RenewalExtensionRows.lease(open.id, at: asked.requestedAt, until: asked.requestedAt + Self.lease))
    guard !leased.isEmpty else {
      throw SupportRefusal.alreadyDone(
        "This extension of \(originalTransactionID) is under way. Repeat it in a minute to learn its end.")
    }
    // The notification of the new date may not have arrived: ask the App Store before sending again.
    guard let expiry = try await expiryAtStore(of: stored, api), let expected = open.expectedRenewal,
      abs(expiry.timeIntervalSince(expected)) < 3_600
    else {
      return try await send(open, to: api, by: author)
    }
    var ended = open
    ended.renewsAt = expiry
    ended.error = nil
    return try await finish(ended, by: author)
  }

  /// For how long one process carries out a request for one subscription.
  private static let lease: TimeInterval = 60

  /// The subscription's end as the App Store has it now; it is recorded.
  private func expiryAtStore(of stored: StoredSubscription, _ api: AppStoreServerAPI) async throws -> Date? {
    guard let app = desk.catalog[stored.bundleID] else { return nil }
    let refresh = PurchaseRefresh(signed: desk.signed, ledger: desk.ledger, pool: pool, clock: clock)
    let environment: Environment =
      stored.subscription.current.environment == .production ? .production : .sandbox
    do {
      _ = try await refresh.refresh(stored.originalTransactionID, of: app, in: environment, from: api)
    } catch let error as AppStoreServerError {
      throw ServiceError.storeUnavailable(
        "The renewal date cannot be read: \(error.reason). Repeat this in a minute.")
    }
    let row = try await pool.query(SubscriptionRows.select([stored.originalTransactionID])).first
    return try row.map { try SubscriptionRows.decode($0).subscription.current.expiresDate } ?? nil
  }

  /// Stores a new request for one subscription, leased by this process.
  /// - Throws: ``SupportRefusal`` if another one is under way or, unless forced, ended within a day.
  private func start(
    _ asked: RenewalExtension, isForced: Bool, by author: SupportAuthor
  ) async throws {
    let id = asked.originalTransactionID ?? ""
    let yesterday = asked.requestedAt - 86_400
    try await pool.withTransaction { connection in
      _ = try await connection.query(
        RenewalExtensionRows.abandon(id, before: yesterday, at: asked.requestedAt))
      let inserted = try await connection.query(
        RenewalExtensionRows.insert(asked, by: author, nextAttemptAt: asked.requestedAt + Self.lease))
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

  private func send(
    _ asked: RenewalExtension, to api: AppStoreServerAPI, by author: SupportAuthor
  ) async throws -> RenewalExtension {
    let id = asked.originalTransactionID ?? ""
    var ended = asked
    ended.error = nil
    do throws(AppStoreServerError) {
      let answer = try await api.extendRenewalDate(
        originalTransactionID: id,
        ExtendRenewalDateRequest(
          extendByDays: Int32(asked.days), extendReasonCode: asked.code,
          requestIdentifier: asked.requestIdentifier),
        in: asked.storeEnvironment)
      ended.renewsAt = answer.effectiveDate
      if answer.success == false { ended.error = "the App Store did not extend it" }
    } catch {
      guard error.isRefusal else {
        _ = try await pool.query(
          RenewalExtensionRows.postpone(asked.id, until: nil, because: error.reason))
        throw ServiceError.storeUnavailable(
          "Whether \(id) was extended is unknown: \(error.reason). Repeat this in a minute: it is sent again only if "
            + "the renewal date has not moved.")
      }
      ended.error = error.sentence
    }
    return try await finish(ended, by: author)
  }

  /// Writes the end of a request for one subscription.
  /// - Throws: ``SupportRefusal`` if the App Store refused it; errors of the database.
  private func finish(_ asked: RenewalExtension, by author: SupportAuthor) async throws -> RenewalExtension {
    var ended = asked
    let instant = clock.now()
    ended.completedAt = instant
    if ended.error == nil { ended.acceptedAt = instant }
    var queries = [RenewalExtensionRows.complete(ended, at: instant)]
    if ended.error == nil { queries.append(record(ended, "extend-renewal", by: author, at: instant)) }
    _ = try await pool.transaction(pipeline: queries)
    if let error = ended.error {
      throw SupportRefusal.invalid("\(ended.originalTransactionID ?? "") was not extended: \(error).")
    }
    return ended
  }

  /// The record in `support_actions`.
  func record(
    _ asked: RenewalExtension, _ name: String, by author: SupportAuthor, at instant: Date
  ) -> Query {
    var details: [String: JSONValue] = [
      "requestIdentifier": .string(asked.requestIdentifier), "days": .integer(asked.days),
      "reasonCode": .integer(asked.reasonCode), "productID": .string(asked.productID),
    ]
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

extension AppStoreServerError {
  /// Whether the App Store will never do what was asked.
  var isRefusal: Bool {
    if case .rejected(let rejection) = self, rejection.status == 403, rejection.code != nil { return true }
    return retryDecision == .skip
  }

  /// The reason of a refusal for support.
  var sentence: String {
    switch code {
    case .subscriptionExtensionIneligible?:
      "the App Store extends paid, active subscriptions only: no free period, no billing retry, not after the end"
    case .subscriptionMaxExtension?: "it was extended twice within 365 days, Apple's limit"
    case .familySharedSubscriptionExtensionIneligible?: "it is a family member's"
    case .originalTransactionIdNotFound?, .transactionIdNotFound?: "the App Store does not know it"
    default: "the App Store refuses it: \(reason)"
    }
  }
}
