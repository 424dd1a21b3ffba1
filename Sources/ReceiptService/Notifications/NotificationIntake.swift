import AppStore
import Crypto
import FoundationEssentials
import HTTP
import HTTPTypes
import Identifiers
import JSON
import Logging
import Subscriptions

/// `POST /api/v1/subscriptions/webhook`: the App Store says that something happened.
///
/// Answered 200 only when it is committed. What carries Apple's signature is kept even where we cannot
/// make sense of it, or of a part of it: the App Store stops asking after a few days.
struct NotificationIntake: Sendable {
  let verifier: SignedDataVerifier
  let ledger: LedgerWriter
  let catalog: AppCatalog
  let traffic: TrafficLimits
  let clock: ServiceClock
  let logger: Logger
  let metrics: ServiceMetrics

  private struct Body: JSONReadable {
    enum Member: String, CaseIterable { case signedPayload }

    private static let names = JSONNames<Member>()

    var signedPayload = ""

    init(reading json: inout JSONReader) throws(JSONFailure) {
      var members = try json.members(of: Self.names)
      while let member = try members.next(in: &json) {
        switch member {
        case .signedPayload: signedPayload = try json.read()
        }
      }
      try members.require(.signedPayload)
    }
  }

  private struct Answer: JSONWritable {
    func write(to json: inout JSONWriter) { json.object { $0.member("success", true) } }
  }

  func respond(to request: Request) async throws -> Response {
    try traffic.checkForgeries(of: request)
    let body = try request.readJSON(Body.self)
    let entry: LedgerEntry
    do throws(VerificationFailure) {
      entry = try self.entry(for: body.signedPayload)
    } catch {
      traffic.noteForgery(of: request)
      logger.warning(
        "a notification was refused", metadata: ["request": "\(request.id)", "reason": "\(error)"])
      metrics.ledger.recordRefusedNotification()
      throw ServiceError.invalidSignature(.unauthorized, error.detail)
    }
    try admit(entry)
    _ = try await ledger.record(entry)
    return Response.json(.ok, Answer())
  }

  /// Limits the notifications of each app that is not configured, since any developer can have the App Store post here.
  /// The App Store posts a refused one again for days, in which an operator can add a forgotten app.
  /// - Throws: ``Problem`` `rate_limited`.
  private func admit(_ entry: LedgerEntry) throws(Problem) {
    guard let notification = entry.notification, notification.obstacle == .unknownApp else { return }
    let bundleID = notification.bundleID ?? ""
    guard catalog[bundleID] == nil else { return }
    do throws(Problem) {
      try traffic.admitForeign(bundleID)
    } catch {
      metrics.ledger.recordLimitedNotification()
      throw error
    }
  }

  /// What the ledger takes in of a signed notification, however it came.
  /// - Throws: for what does not carry the App Store's signature.
  func entry(
    for signedPayload: String, from source: KeptNotification.Source = .webhook
  ) throws(VerificationFailure) -> LedgerEntry {
    do throws(VerificationFailure) {
      return entry(for: try verifier.notification(signedPayload), from: source)
    } catch {
      // The App Store signed the whole and would post it again: a part that fails is no reason to refuse it. No fact of
      // it is taken in, not even of parts that verify.
      let instant = clock.now()
      guard error.isAuthentic,
        var kept = KeptNotification(
          unusable: signedPayload, because: error, receivedAt: instant, source: source)
      else { throw error }
      if let bundleID = kept.bundleID, catalog[bundleID] == nil { kept.obstacle = .unknownApp }
      logger.error(
        "a notification cannot be used, is kept, and waits for a replay",
        metadata: ["notification": "\(kept.uuid.uuidString.lowercased())", "reason": "\(error)"])
      return LedgerEntry(notification: kept, instant: instant)
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
      source: source, obstacle: reading.obstacle, payload: KeptPayload(notification))
    if let obstacle = reading.obstacle {
      logger.error(
        "a notification is kept and waits for a replay",
        metadata: [
          "notification": "\(kept.uuid.uuidString.lowercased())", "why": "\(obstacle.rawValue)",
          "type": "\(kept.type)",
        ])
    }
    return LedgerEntry(
      app: reading.app, originalTransactionID: reading.originalTransactionID,
      transactions: reading.transactions, renewals: reading.renewals, notification: kept,
      instant: instant)
  }

  private struct Reading {
    var app: App?
    var originalTransactionID: String?
    var transactions: [TransactionRecord] = []
    var renewals: [RenewalRecord] = []
    var obstacle: KeptNotification.Obstacle?
  }

  private func read(_ notification: VerifiedNotification) -> Reading {
    let payload = notification.payload
    var reading = Reading()
    reading.originalTransactionID =
      (notification.transaction?.payload.originalTransactionId
      ?? notification.renewalInfo?.payload.originalTransactionId)?.storable
    guard let app = payload.bundleId.flatMap({ catalog[$0] }) else {
      reading.obstacle = .unknownApp
      return reading
    }
    do throws(VerificationFailure) {
      try app.identity.check(notification)
    } catch {
      reading.obstacle = error.code == .wrongEnvironment ? .unknownEnvironment : .unknownApp
      return reading
    }
    reading.app = app
    do throws(Unkept) {
      if let signed = notification.transaction { reading.transactions = [try TransactionRecord(signed)] }
      if let signed = notification.renewalInfo { reading.renewals = [try RenewalRecord(signed)] }
    } catch {
      reading.obstacle = .unknownEnvironment
      return reading
    }
    // A renewal info of another subscription than the transaction beside it makes no sense to us.
    if reading.renewals.contains(where: {
      $0.fact.originalTransactionID != reading.originalTransactionID
    }) {
      reading.renewals = []
      reading.obstacle = .failed
    }
    // Facts in a notification of a type that we do not know are facts all the same.
    if !NotificationType.understood.contains(payload.notificationType) { reading.obstacle = .unknownType }
    if reading.transactions.contains(where: { app.product(named: $0.fact.productID) == nil }) {
      reading.obstacle = .unknownProduct
    }
    return reading
  }
}

extension UUID {
  /// Apple's `notificationUUID`. Should it ever be another kind of name, a UUID made of it identifies it
  /// just as well.
  init(notificationUUID: String) {
    if let uuid = UUID(rfc9562: notificationUUID) {
      self = uuid
      return
    }
    let hash = Array(SHA256.hash(data: Array(notificationUUID.utf8)))
    self = hash.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
  }
}
