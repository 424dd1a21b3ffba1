import AppStore
import Configuration
import Crypto
import Customers
import Foundation
import HTTP
import HTTPTypes
import Identifiers
import JSON
import Logging
import Requests
import Subscriptions
import Text
import Work

/// `POST /api/v1/subscriptions/webhook`: receives the App Store's notifications.
///
/// Responds 200 only after the commit. A notification with Apple's signature is stored even if it, or a part of it,
/// cannot be processed: the App Store stops retrying after a few days.
package struct NotificationIntake: Sendable {
  package let verifier: SignedDataVerifier
  let ledger: LedgerWriter
  let catalog: AppCatalog
  package let rateLimits: ClientRateLimits
  let clock: ServiceClock
  let logger: Logger
  let metrics: LedgerMetrics

  package init(
    verifier: SignedDataVerifier, ledger: LedgerWriter, catalog: AppCatalog, rateLimits: ClientRateLimits,
    clock: ServiceClock, logger: Logger, metrics: LedgerMetrics
  ) {
    self.verifier = verifier
    self.ledger = ledger
    self.catalog = catalog
    self.rateLimits = rateLimits
    self.clock = clock
    self.logger = logger
    self.metrics = metrics
  }

  private struct Body: JSONReadable {
    enum Member: String, CaseIterable {
      case signedPayload
      // Members of a notification of version 1. Its `password` is never read.
      case notificationType = "notification_type"
      case unifiedReceipt = "unified_receipt"
    }

    private static let names = JSONNames<Member>()

    var signedPayload = ""
    /// Whether the body is a notification of version 1, which has no signature.
    var isVersion1 = false

    init(reading json: inout JSONReader) throws(JSONFailure) {
      var members = try json.members(of: Self.names)
      while let member = try members.next(in: &json) {
        switch member {
        case .signedPayload: signedPayload = try json.read()
        case .notificationType, .unifiedReceipt:
          try json.skip()
          isVersion1 = true
        }
      }
      if isVersion1, signedPayload.isEmpty { return }
      try members.require(.signedPayload)
    }
  }

  private struct Answer: JSONWritable {
    func write(to json: inout JSONWriter) { json.object { $0.member("success", true) } }
  }

  package func respond(to request: Request) async throws -> Response {
    try rateLimits.checkForgeries(of: request)
    let body: Body
    do throws(Problem) {
      body = try request.readJSON(Body.self)
    } catch {
      rateLimits.noteForgery(of: request)
      throw error
    }
    if body.isVersion1, body.signedPayload.isEmpty {
      try rateLimits.admitVersion1()
      logger.warning(
        "a notification of version 1 was refused; set version 2 for the URL in App Store Connect",
        metadata: ["request": "\(request.id)"])
      metrics.recordVersion1Notification()
      throw ServiceError.notificationOfVersion1
    }
    let entry: LedgerEntry
    do throws(VerificationFailure) {
      entry = try self.entry(for: body.signedPayload)
    } catch {
      rateLimits.noteForgery(of: request)
      logger.warning(
        "a notification was refused", metadata: ["request": "\(request.id)", "reason": "\(error)"])
      metrics.recordRefusedNotification()
      throw ServiceError.invalidSignature(.unauthorized, error.detail)
    }
    try admit(entry)
    _ = try await ledger.record(entry)
    return Response.json(.ok, Answer())
  }

  /// Limits the notifications of apps that are not configured, because any developer can register this URL. The App
  /// Store retries a refused notification for days, in which an operator can add a missing app.
  /// - Throws: ``Problem`` `rate_limited`.
  private func admit(_ entry: LedgerEntry) throws(Problem) {
    guard let notification = entry.notification, notification.pendingReason == .unknownApp else { return }
    let bundleID = notification.bundleID ?? ""
    guard catalog[bundleID] == nil else { return }
    do throws(Problem) {
      try rateLimits.admitForeign(bundleID)
    } catch {
      metrics.recordLimitedNotification()
      throw error
    }
  }

  /// The ledger entry of a signed notification.
  /// - Throws: if the notification does not have the App Store's signature.
  package func entry(
    for signedPayload: String, from source: KeptNotification.Source = .webhook
  ) throws(VerificationFailure) -> LedgerEntry {
    do throws(VerificationFailure) {
      return entry(for: try verifier.notification(signedPayload), from: source)
    } catch {
      // The App Store signed the envelope and would retry it, so a bad part is no reason to refuse it. None of its
      // transactions are processed, not even parts that verify.
      let instant = clock.now()
      guard error.isAuthentic,
        var kept = KeptNotification(
          unusable: signedPayload, because: error, receivedAt: instant, source: source)
      else { throw error }
      if let bundleID = kept.bundleID, catalog[bundleID] == nil { kept.pendingReason = .unknownApp }
      logger.error(
        "a notification cannot be processed; it is stored until a replay",
        metadata: ["notification": "\(kept.uuid.uuidString.lowercased())", "reason": "\(error)"])
      return LedgerEntry(because: .notification(kept), instant: instant)
    }
  }

  private func entry(
    for notification: VerifiedNotification, from source: KeptNotification.Source
  ) -> LedgerEntry {
    let instant = clock.now()
    let payload = notification.payload
    let reading = read(notification)
    let kept = KeptNotification(
      uuid: UUID(notificationUUID: payload.notificationUUID),
      type: payload.notificationType.rawValue.storable,
      subtype: payload.subtype?.rawValue.storable, bundleID: payload.bundleId?.storable,
      environment: payload.environment?.rawValue.storable, signedAt: payload.signedDate, receivedAt: instant,
      source: source, pendingReason: reading.pendingReason, payload: KeptPayload(notification))
    if let pendingReason = reading.pendingReason {
      var metadata: Logger.Metadata = [
        "notification": "\(kept.uuid.uuidString.lowercased())", "reason": "\(pendingReason.rawValue)",
        "type": "\(kept.type)", "app": "\(kept.bundleID ?? "")",
        "environment": "\(kept.environment ?? "")",
      ]
      if let product = reading.transactions.first?.fact.productID { metadata["product"] = "\(product)" }
      logger.error(
        "a notification cannot be processed yet; it is stored until a replay", metadata: metadata)
    }
    var refundRequest: RefundRequest?
    if payload.notificationType == .consumptionRequest, let fact = reading.transactions.first?.fact {
      refundRequest = RefundRequest(
        transactionID: fact.transactionID, environment: fact.environment,
        reason: payload.data?.consumptionRequestReason?.rawValue.storable, askedAt: payload.signedDate)
    }
    return LedgerEntry(
      app: reading.app, originalTransactionID: reading.originalTransactionID,
      transactions: reading.transactions, renewals: reading.renewals,
      because: .notification(kept, refundRequest), instant: instant)
  }

  private struct Reading {
    var app: App?
    var originalTransactionID: String?
    var transactions: [TransactionRecord] = []
    var renewals: [RenewalRecord] = []
    var pendingReason: KeptNotification.PendingReason?
  }

  private func read(_ notification: VerifiedNotification) -> Reading {
    let payload = notification.payload
    var reading = Reading()
    reading.originalTransactionID =
      (notification.transaction?.payload.originalTransactionId
      ?? notification.renewalInfo?.payload.originalTransactionId)?.storable
    guard let app = payload.bundleId.flatMap({ catalog[$0] }) else {
      reading.pendingReason = .unknownApp
      return reading
    }
    do throws(VerificationFailure) {
      try app.identity.check(notification)
    } catch {
      reading.pendingReason = error.code == .wrongEnvironment ? .unknownEnvironment : .unknownApp
      return reading
    }
    reading.app = app
    do throws(UnsupportedEnvironment) {
      if let signed = notification.transaction {
        var record = try TransactionRecord(signed)
        // The notification of the refund may be missing. The refund of a non-consumable separates two purchases, so only
        // its own date counts.
        if payload.notificationType == .refundReversed, record.fact.kind == .autoRenewable {
          record.fact.latestRevocation = record.fact.signedAt
        }
        reading.transactions = [record]
      }
      if let signed = notification.renewalInfo { reading.renewals = [try RenewalRecord(signed)] }
    } catch {
      reading.pendingReason = .unknownEnvironment
      return reading
    }
    // The renewal info must be of the same subscription as the transaction.
    if reading.renewals.contains(where: {
      $0.fact.originalTransactionID != reading.originalTransactionID
    }) {
      reading.renewals = []
      reading.pendingReason = .failed
    }
    // The transactions of a notification of an unknown type are processed nevertheless.
    if !NotificationType.supported.contains(payload.notificationType) { reading.pendingReason = .unknownType }
    if reading.transactions.contains(where: { app.product(named: $0.fact.productID) == nil }) {
      reading.pendingReason = .unknownProduct
    }
    return reading
  }
}

extension UUID {
  /// Apple's `notificationUUID`; for a value that is not a UUID, a UUID made of its hash.
  package init(notificationUUID: String) {
    if let uuid = UUID(rfc9562: notificationUUID) {
      self = uuid
      return
    }
    let hash = Array(SHA256.hash(data: Array(notificationUUID.utf8)))
    self = hash.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
  }
}

/// The App Store's question about a refund, from a notification `CONSUMPTION_REQUEST`.
package struct RefundRequest: Sendable {
  package var transactionID: String
  package var environment: StoreEnvironment
  /// The customer's reason, in Apple's words.
  package var reason: String?
  package var askedAt: Date

  /// Apple's limit for an answer.
  package static let timeToAnswer: TimeInterval = 12 * 3_600
}
