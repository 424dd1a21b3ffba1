import Actions
import AppStore
import Configuration
import Customers
import Foundation
import JSON
import Ledger
import Logging
import Platform
import Postgres
import Requests
import Subscriptions
import Work

/// A background job that makes the calls of the table `store_calls`: each until the App Store has taken or refused it, or
/// its deadline has passed.
///
/// A call is leased and not locked, so no transaction is open during a request. A server that dies between the App Store's
/// answer and the commit makes the call once more, with the same body. So does one that learned no outcome; after a definite
/// rejection the next attempt decides the body anew.
struct StoreCallQueue: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  /// Waits longer than a request, because jobs can.
  let apis: [String: AppStoreServerAPI]
  let clock: ServiceClock
  let logger: Logger
  let metrics: DeliveryMetrics

  init(
    pool: PostgresPool, catalog: AppCatalog, apis: [String: AppStoreServerAPI], clock: ServiceClock,
    logger: Logger, metrics: DeliveryMetrics
  ) {
    self.pool = pool
    self.catalog = catalog
    self.apis = apis
    self.clock = clock
    self.logger = logger
    self.metrics = metrics
  }

  private static let batch = 16
  /// Outlives the longest call.
  private static let lease: TimeInterval = 300
  /// The time between two looks at a call that waits for a consent, a policy or a key.
  private static let wait: TimeInterval = 300
  private static let backoff = Backoff(base: .seconds(5), maximum: .seconds(900), jitter: 0.5)

  /// Makes all due calls, every five seconds.
  var job: BackgroundJob {
    BackgroundJob("calls to the App Store", every: .seconds(5)) { while try await run() == Self.batch {} }
  }

  /// Makes one batch of due calls.
  /// - Returns: the number of calls that were due.
  @discardableResult
  func run() async throws -> Int {
    let instant = clock.now()
    let calls = try await pool.query(
      StoreCallRows.claimDue(at: instant, until: instant + Self.lease, limit: Self.batch)
    ).compactMap(StoreCall.init)
    let outage = await withTaskGroup(of: (any Error)?.self) { group in
      for call in calls { group.addTask { await makeAlone(call) } }
      return await group.reduce(nil) { $0 ?? $1 }
    }
    if let outage { throw outage }
    return calls.count
  }

  /// Makes one call. If it fails, the others go on, and it waits or ends at its deadline.
  /// - Returns: an error that concerns all calls.
  private func makeAlone(_ call: StoreCall) async -> (any Error)? {
    do {
      try await make(call)
      return nil
    } catch {
      if isDatabaseUnavailable(error) || Task.isCancelled || error is CancellationError { return error }
      logger.error(
        "a queued call to the App Store failed",
        metadata: ["call": "\(call.id)", "kind": "\(call.kind.rawValue)", "error": "\(error)"])
    }
    do {
      try await pause(call, "receiptd failed to make the call; the log has the error")
      return nil
    } catch {
      return error
    }
  }

  private func make(_ call: StoreCall) async throws {
    // The app may be configured again before the deadline.
    guard let app = catalog[call.bundleID] else { return try await pause(call, "the app is not configured") }
    switch call.kind {
    case .consumption: try await answer(call, of: app)
    case .accountToken: try await tellAccountToken(call)
    }
  }

  /// Looks at a call again after a while, or settles it at its deadline.
  func pause(_ call: StoreCall, _ reason: String) async throws {
    let instant = clock.now()
    if instant >= call.deadline {
      return try await settle(call, call.isUncertain ? .unknown : .late, reason)
    }
    _ = try await pool.query(
      StoreCallRows.pause(call, from: instant, until: instant + Self.wait, because: reason))
  }

  /// Sends a call, and writes down the outcome.
  /// - Parameter answer: the answer about a refund that the call sends.
  func send(
    _ call: StoreCall, answer: SentRefundAnswer? = nil,
    _ request: @Sendable (AppStoreServerAPI) async throws(AppStoreServerError) -> Void
  ) async throws {
    guard let api = apis[call.bundleID] else {
      return try await pause(call, "no App Store Connect key is configured for the app")
    }
    do throws(AppStoreServerError) {
      try await request(api)
    } catch {
      let reason = error.reason
      if error.retryDecision == .skip {
        logger.error(
          "the App Store refused a queued call",
          metadata: ["call": "\(call.id)", "kind": "\(call.kind.rawValue)", "reason": "\(reason)"])
        // The App Store may have the answer from an earlier attempt.
        return try await settle(call, call.isUncertain ? .unknown : .refused, reason, answer: answer)
      }
      metrics.queuedStoreCall(call, "failed")
      let next = clock.now() + Self.backoff.seconds(afterFailures: call.attempts + 1)
      let keepsBody = call.isUncertain || error.mayBeCarriedOut
      _ = try await pool.query(
        StoreCallRows.postpone(call, until: next, because: reason, keepsBody: keepsBody))
      return
    }
    try await settle(call, .sent, nil, answer: answer)
  }

  /// Ends a call, and records the end of a refund request for support.
  func settle(
    _ call: StoreCall, _ outcome: StoreCallOutcome, _ reason: String?, answer: SentRefundAnswer? = nil
  ) async throws {
    let instant = clock.now()
    var end = StoreCallRows.settle(call, outcome, because: reason, at: instant)
    if call.kind == .consumption {
      end = StoreCallRows.settle(end, recording: refundRecord(call, outcome, reason, answer, at: instant))
    }
    var queries = [end]
    if outcome == .sent { queries.append(StoreCallRows.settleRepetitions(of: call, at: instant)) }
    // In a task of its own, which a stop of the service does not cancel: otherwise the call would be made again.
    let (pool, statements) = (pool, queries)
    _ = try await Task { try await pool.transaction(pipeline: statements) }.value
    metrics.queuedStoreCall(call, outcome.rawValue)
  }
}

extension StoreCallQueue {
  /// Answers a question about a refund, or writes down why not.
  func answer(_ call: StoreCall, of app: App) async throws {
    guard let answer = try await pool.withConnection({ try await RefundAnswer(to: call, of: app, $0) })
    else {
      return try await settle(call, .notNeeded, "the transaction is not stored")
    }
    switch answer.decision(at: clock.now()) {
    case .wait(let reason): try await pause(call, call.isUncertain ? StoreCallRows.underWay : reason)
    case .settle(let outcome, let reason):
      // An earlier attempt had begun, so the App Store may have the answer.
      try await settle(call, call.isUncertain ? .unknown : outcome, reason)
    case .send(let decided):
      // An erasure or another server may have ended the call.
      guard let (request, preferredBy) = try await recorded(decided, answer.preference?.by, for: call) else {
        return
      }
      let sent = SentRefundAnswer(sentence: answer.sentence(of: request), preferredBy: preferredBy)
      try await send(call, answer: sent) { api throws(AppStoreServerError) in
        try await api.sendConsumption(of: call.transactionID, request, in: call.environment)
      }
    }
  }

  /// Writes the answer before it is sent. If an earlier attempt has no known end, this one repeats its answer: the App Store
  /// may have it.
  /// - Returns: the answer to send, and the person whose preference it follows; `nil` if the call has ended.
  private func recorded(
    _ request: ConsumptionRequest, _ preferredBy: String?, for call: StoreCall
  ) async throws -> (ConsumptionRequest, preferredBy: String?)? {
    var (sent, body, person) = (request, call.body, preferredBy)
    if let body {
      sent = try JSONDecoder().decode(ConsumptionRequest.self, from: Data(body.text.utf8))
      person = call.preferredBy
    } else {
      body = JSONText(utf8: try JSONEncoder().encode(request))
    }
    guard let body else { return nil }
    let rows = try await pool.query(StoreCallRows.record(body, preferredBy: person, of: call.id))
    return rows.affected == 1 ? (sent, person) : nil
  }

  /// The record of the end of a refund request in `support_actions`.
  func refundRecord(
    _ call: StoreCall, _ outcome: StoreCallOutcome, _ reason: String?, _ answer: SentRefundAnswer?,
    at instant: Date
  ) -> Query {
    var details: [String: JSONValue] = [
      "outcome": .string(outcome.rawValue), "transactionID": .string(call.transactionID),
    ]
    if let person = answer?.preferredBy ?? call.preferredBy { details["preferredBy"] = .string(person) }
    let action = SupportAction(
      name: "refund-answer", bundleID: call.bundleID, originalTransactionID: call.originalTransactionID,
      details: details)
    let sentence =
      switch outcome {
      case .sent: "told the App Store: \(answer?.sentence ?? "")"
      case .unknown:
        "sent or unknown: \(StoreCallRows.underWay); then: \(reason ?? "nothing")"
      case .refused: "the App Store refused the answer: \(reason ?? "")"
      default: "not answered: \(reason ?? outcome.rawValue)"
      }
    return SupportActionRows.insert([action], by: .refundPolicy(sentence), at: instant)
  }
}

/// An answer about a refund as it was sent.
struct SentRefundAnswer: Sendable {
  /// The answer in words.
  var sentence: String
  /// The person whose preference it follows; `nil` for the app's policy.
  var preferredBy: String?
}

extension StoreCallQueue {
  /// Tells the App Store the user who first proved a purchase.
  ///
  /// The ledger takes a token that it has not seen as the App Store's decision about the owner. So this writes the token to
  /// the purchase's row first: a renewal that carries it later does not move a purchase that support has transferred.
  func tellAccountToken(_ call: StoreCall) async throws {
    guard let user = call.userID, try await reserve(user, for: call) else {
      return try await settle(call, .notNeeded, "the purchase has another owner, or names a user")
    }
    if clock.now() >= call.deadline { return try await settle(call, .late, "the App Store did not take it") }
    try await send(call) { api throws(AppStoreServerError) in
      try await api.setAppAccountToken(
        originalTransactionID: call.originalTransactionID,
        UpdateAppAccountTokenRequest(appAccountToken: user),
        in: call.environment)
    }
  }

  /// - Returns: whether the user still has the purchase and the App Store names no other.
  private func reserve(_ user: UUID, for call: StoreCall) async throws -> Bool {
    try await pool.withTransaction { connection in
      let answers = try await connection.pipeline([
        AdvisoryLock.acquire(.purchase, [call.originalTransactionID]),
        """
        UPDATE subscriptions SET app_account_token = \(user)
        WHERE original_transaction_id = \(call.originalTransactionID) AND user_id = \(user)
          AND owned_because = 'first_claim' AND ownership = 'PURCHASED'
          AND (app_account_token IS NULL OR app_account_token = \(user))
          AND NOT EXISTS (
            SELECT FROM transactions t
            WHERE t.original_transaction_id = \(call.originalTransactionID) AND t.app_account_token IS NOT NULL)
        """,
      ])
      return answers[1].affected > 0
    }
  }
}

extension SupportAuthor {
  /// The author of an answer to the App Store about a refund.
  /// - Parameter sentence: what was answered, or why nothing was.
  fileprivate static func refundPolicy(_ sentence: String) -> SupportAuthor {
    SupportAuthor(rule: "policy", reason: sentence)
  }
}
