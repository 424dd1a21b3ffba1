import Actions
import AppStore
import Configuration
import Deliveries
import Foundation
import Logging
import Platform
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// Extends the renewal dates of all active, paying subscribers of a product.
package struct ExtendAllRenewalsRequest: SupportRequest {
  package static let operation = SupportOperation.extendRenewal

  /// The App Store's product id.
  var productID: String
  /// 1 to 90.
  var days: Int
  /// Apple's `extendReasonCode`, 0 to 3.
  var reasonCode: Int
  /// ISO 3166-1 alpha-3 codes; empty for all.
  var storefronts: [String]
  /// The app; `nil` for the only one that sells the product.
  var bundleID: String?
  /// Apple's name of the environment.
  var environment: String
  /// Whether to extend a product that was extended within a day.
  var force: Bool?

  package init(
    productID: String, days: Int, reasonCode: Int, storefronts: [String], bundleID: String?,
    environment: String, force: Bool?
  ) {
    self.productID = productID
    self.days = days
    self.reasonCode = reasonCode
    self.storefronts = storefronts
    self.bundleID = bundleID
    self.environment = environment
    self.force = force
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> RenewalExtension {
    try await desk.renewalExtensions.extendAll(
      ofProduct: productID, days: days, reasonCode: reasonCode, storefronts: storefronts, bundleID: bundleID,
      environment: environment, isDryRun: isDryRun, isForced: force ?? false, by: author)
  }
}

extension RenewalExtensions {
  /// An extension of the same product is refused for this time, unless it is forced.
  private static let pause: TimeInterval = 86_400
  /// Outlives the longest call.
  private static let lease: TimeInterval = 300
  /// For how long the App Store is asked for the end.
  private static let maximumAge: TimeInterval = 30 * 86_400
  private static let backoff = Backoff(base: .seconds(10), maximum: .seconds(600), jitter: 0.5)

  /// Extends all active, paying subscribers of a product. The App Store may need hours or days; ``job`` follows it to
  /// the end. The same call continues a request that has not ended.
  ///
  /// - Parameters:
  ///   - storefronts: ISO 3166-1 alpha-3 codes; empty for all.
  ///   - bundleID: the app; `nil` for the only one that sells the product.
  ///   - isForced: whether to extend a product that was extended within a day.
  /// - Throws: ``SupportRefusal``; `Problem` `store_unavailable` without a key; errors of the database.
  package func extendAll(
    ofProduct productID: String, days: Int, reasonCode: Int, storefronts: [String] = [],
    bundleID: String? = nil, environment: String = "Production", isDryRun: Bool = false,
    isForced: Bool = false,
    by author: SupportAuthor
  ) async throws -> RenewalExtension {
    try Self.check(days: days, reasonCode: reasonCode)
    let app = try seller(of: productID, bundleID: bundleID)
    guard app.environments.contains(where: { $0.rawValue == environment }) else {
      throw SupportRefusal.invalid("\(app.bundleID) is not served in the environment '\(environment)'.")
    }
    let codes = try Self.storefronts(storefronts)
    _ = try api(of: app.bundleID)
    let instant = clock.now()
    let asked = RenewalExtension(
      bundleID: app.bundleID, environment: environment, productID: productID, storefronts: codes, days: days,
      reasonCode: reasonCode, requestedAt: instant)
    let started = try await pool.withTransaction { connection async throws -> RenewalExtension? in
      if let latest = try await latest(otherThan: asked, connection), !latest.isComplete {
        guard latest.isSameRequest(as: asked) else {
          throw SupportRefusal.alreadyDone(
            "Another extension of \(productID) has not ended: \(latest.requestIdentifier).")
        }
        return isDryRun ? nil : latest
      }
      if !isDryRun {
        let inserted = try await connection.query(
          RenewalExtensionRows.insert(asked, by: author, nextAttemptAt: instant))
        guard inserted.affected > 0 else {
          throw SupportRefusal.alreadyDone("Another person has just started an extension of \(productID).")
        }
      }
      // Look after the insert: a request that was under way until the insert has an end that this query sees.
      if !isForced, let latest = try await latest(otherThan: asked, connection), latest.error == nil,
        instant.timeIntervalSince(latest.requestedAt) < Self.pause
      {
        throw SupportRefusal.alreadyDone(
          "\(productID) was extended by \(latest.days) days at \(latest.requestedAt.rfc3339); extend it again "
            + "with --force.")
      }
      if isDryRun { return nil }
      _ = try await connection.query(record(asked, "extend-all-renewals", by: author, at: instant))
      return asked
    }
    guard let started else {
      var plan = asked
      plan.isDryRun = true
      let row = try await pool.query(
        RenewalExtensionRows.subscribers(of: asked, since: instant - Self.pause))[0]
      plan.subscribers = try row.decode("subscribers")
      plan.extendedAlready = try row.decode("extended_already")
      return plan
    }
    return try await refreshed(started.id)
  }

  private func latest(
    otherThan asked: RenewalExtension, _ connection: PostgresConnection
  ) async throws -> RenewalExtension? {
    try await connection.query(RenewalExtensionRows.latest(otherThan: asked)).first.map(RenewalExtension.init)
  }

  /// Two processes may ask about one request at a time: the App Store takes a repeated one as the same.
  private var queue: WorkQueue<RenewalExtension> {
    WorkQueue(
      RenewalExtensionRows.ofAll, desk.work, batch: 8, lease: Self.lease, kind: { _ in .renewalExtension },
      key: \.id, endsRun: isDatabaseUnavailable, read: RenewalExtension.init)
  }

  /// A request, after the App Store was asked for its state.
  /// - Throws: ``SupportRefusal`` for an unknown one; errors of the database.
  package func refreshed(_ identifier: UUID) async throws -> RenewalExtension {
    let lease = WorkLease(at: clock.now(), for: Self.lease)
    let claim = RenewalExtensionRows.ofAll.claim(
      identifier, lease, or: "true", returning: RenewalExtensionRows.columns)
    for asked in try await pool.query(claim).map(RenewalExtension.init) {
      try await queue.settle(asked, advance(asked, lease))
    }
    guard let row = try await pool.query(RenewalExtensionRows.select(identifier)).first else {
      throw SupportRefusal.notFound("There is no extension \(identifier.uuidString.lowercased()).")
    }
    return try RenewalExtension(row)
  }

  /// Follows the requests that have not ended, every 15 seconds.
  var job: BackgroundJob {
    BackgroundJob("renewal extensions", every: .seconds(15)) { try await run() }
  }

  /// Asks the App Store about each request that is due.
  func run() async throws {
    try await queue.runAll(
      { RenewalExtensionRows.ofAll.claim($0, limit: "\($1)", returning: RenewalExtensionRows.columns) },
      attempt: advance)
  }

  /// Sends a request that the App Store has not taken yet, and reads its state.
  @Sendable private func advance(_ asked: RenewalExtension, _ lease: WorkLease) async throws -> WorkOutcome {
    var asked = asked
    do {
      let api = try api(of: asked.bundleID)
      if asked.acceptedAt == nil {
        var request = MassExtendRenewalDateRequest(
          productId: asked.productID, extendByDays: Int32(asked.days), extendReasonCode: asked.code,
          requestIdentifier: asked.requestIdentifier)
        request.storefrontCountryCodes = asked.storefronts
        _ = try await api.extendRenewalDates(request, in: asked.storeEnvironment)
        asked.acceptedAt = clock.now()
        _ = try await pool.query(
          RenewalExtensionRows.accept(asked.id, at: asked.acceptedAt ?? clock.now()))
      }
      let status = try await api.extensionStatus(
        productID: asked.productID, requestIdentifier: asked.requestIdentifier, in: asked.storeEnvironment)
      guard status.complete == true else { return postpone(asked, lease, nil) }
      asked.succeeded = status.succeededCount ?? 0
      asked.failed = status.failedCount ?? 0
      asked.error = nil
      return complete(asked, .done, at: status.completeDate ?? clock.now())
    } catch let error as AppStoreServerError {
      // The App Store may learn of its own request a little later.
      guard error.isRefusal, error.code != .statusRequestNotFound else {
        return postpone(asked, lease, error.reason)
      }
      asked.error = error.sentence
      return complete(asked, .givenUp, at: clock.now())
    }
  }

  private func complete(
    _ ended: RenewalExtension, _ result: WorkOutcome.Result, at instant: Date
  ) -> WorkOutcome {
    WorkOutcome(result, [RenewalExtensionRows.complete(ended, at: instant)]) {
      desk.logger.notice(
        "an extension of renewal dates has ended",
        metadata: [
          "extension": "\(ended.requestIdentifier)", "product": "\(ended.productID)",
          "succeeded": "\(ended.succeeded ?? 0)", "failed": "\(ended.failed ?? 0)",
          "reason": "\(ended.error ?? "none")",
        ])
    }
  }

  private func postpone(_ asked: RenewalExtension, _ lease: WorkLease, _ reason: String?) -> WorkOutcome {
    let instant = clock.now()
    if instant.timeIntervalSince(asked.requestedAt) > Self.maximumAge {
      var ended = asked
      ended.error = "no end within 30 days: \(reason ?? "the App Store works on it")"
      return complete(ended, .givenUp, at: instant)
    }
    let next = instant + Self.backoff.seconds(afterFailures: asked.attempts + 1)
    return WorkOutcome(
      reason == nil ? .waits : .retry,
      [
        RenewalExtensionRows.ofAll.retry(asked.id, of: lease, at: next, because: reason, isAttempt: true)
      ])
  }

  private func seller(of productID: String, bundleID: String?) throws(SupportRefusal) -> App {
    let apps =
      if let bundleID { [try desk.app(named: bundleID)] } else { desk.catalog.apps }
    let sellers = apps.filter { $0.product(named: productID) != nil }
    guard let app = sellers.first else { throw .notFound("No app sells the product '\(productID)'.") }
    guard sellers.count == 1 else {
      throw .invalid("Several apps sell '\(productID)': name one with --bundle.")
    }
    return app
  }

  private static func storefronts(_ codes: [String]) throws(SupportRefusal) -> [String]? {
    for code in codes
    where code.utf8.count != 3
      || !code.utf8.allSatisfy({ (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) })
    {
      throw .invalid("'\(code)' is not a storefront: use ISO 3166-1 alpha-3 codes such as USA or DEU.")
    }
    return codes.isEmpty ? nil : Set(codes).sorted()
  }
}
