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

/// A background job that makes the calls of the table `store_calls`: each until the App Store has taken or refused it,
/// or its deadline has passed.
///
/// A server that dies between the App Store's answer and the commit makes the call once more, with the same body. So
/// does one that learned no outcome; after a definite rejection the next attempt decides the body anew.
struct StoreCallQueue: Sendable {
  let catalog: AppCatalog
  /// Waits longer than a request, because jobs can.
  let apis: [String: AppStoreServerAPI]
  let metrics: DeliveryMetrics
  let queue: WorkQueue<StoreCall>

  init(
    catalog: AppCatalog, apis: [String: AppStoreServerAPI], metrics: DeliveryMetrics, _ context: WorkContext
  ) {
    self.catalog = catalog
    self.apis = apis
    self.metrics = metrics
    queue = WorkQueue(
      StoreCallRows.table, context, batch: 16, lease: 300,
      kind: { $0.kind == .consumption ? .consumption : .accountToken }, key: \.id,
      endsRun: isDatabaseUnavailable, read: StoreCall.init)
  }

  private var pool: PostgresPool { queue.context.pool }
  private var clock: ServiceClock { queue.context.clock }
  private var logger: Logger { queue.context.logger }

  /// The time between two looks at a call that waits for a consent, a policy or a key.
  private static let wait: TimeInterval = 300
  private static let backoff = Backoff(base: .seconds(5), maximum: .seconds(900), jitter: 0.5)

  /// Makes all due calls, every five seconds.
  var job: BackgroundJob {
    BackgroundJob("calls to the App Store", every: .seconds(5)) {
      _ = try await queue.runAll(StoreCallRows.claimDue, attempt: make)
    }
  }

  /// Makes one batch of due calls.
  /// - Returns: the number of calls that were due.
  @discardableResult
  func run() async throws -> Int { try await queue.run(StoreCallRows.claimDue, attempt: make) }

  /// Makes one call. If it fails, it waits or ends at its deadline.
  @Sendable private func make(_ call: StoreCall, _ lease: WorkLease) async throws -> WorkOutcome {
    // The app may be configured again before the deadline.
    guard let app = catalog[call.bundleID] else { return pause(call, lease, "the app is not configured") }
    do {
      return switch call.kind {
      case .consumption: try await answer(call, lease, of: app)
      case .accountToken: try await tellAccountToken(call, lease)
      }
    } catch  where !isDatabaseUnavailable(error) && !Task.isCancelled && !(error is CancellationError) {
      logger.error(
        "a queued call to the App Store failed",
        metadata: ["call": "\(call.id)", "kind": "\(call.kind.rawValue)", "error": "\(error)"])
      return pause(call, lease, "receiptd failed to make the call; the log has the error")
    }
  }

  /// Looks at a call again after a while, or settles it at its deadline.
  private func pause(_ call: StoreCall, _ lease: WorkLease, _ reason: String) -> WorkOutcome {
    let instant = clock.now()
    if instant >= call.deadline { return settle(call, call.isUncertain ? .unknown : .late, reason) }
    return WorkOutcome(
      .waits,
      [
        StoreCallRows.table.retry(
          call.id, of: lease, at: instant + Self.wait, because: reason, isAttempt: false)
      ])
  }

  /// How long the App Store may not know a transaction of which a client's proof has told, in seconds. The first call
  /// follows the purchase within seconds.
  private static let unknownPatience: TimeInterval = 3_600

  /// Whether a call about a purchase that the App Store does not know yet is repeated.
  private func mayBecomeKnown(_ call: StoreCall, _ error: AppStoreServerError) -> Bool {
    call.kind == .accountToken && error.meansUnknown && clock.now() < call.askedAt + Self.unknownPatience
  }

  /// Sends a call.
  /// - Parameter answer: the answer about a refund that the call sends.
  private func send(
    _ call: StoreCall, _ lease: WorkLease, answer: SentRefundAnswer? = nil,
    _ request: @Sendable (AppStoreServerAPI) async throws(AppStoreServerError) -> Void
  ) async throws -> WorkOutcome {
    guard let api = apis[call.bundleID] else {
      return pause(call, lease, "no App Store Connect key is configured for the app")
    }
    do throws(AppStoreServerError) {
      try await request(api)
    } catch {
      // The server stops: no attempt failed.
      if case .transport(let cause) = error, cause is CancellationError { throw cause }
      let reason = error.reason
      if error.retryDecision == .skip, !mayBecomeKnown(call, error) {
        logger.error(
          "the App Store refused a queued call",
          metadata: ["call": "\(call.id)", "kind": "\(call.kind.rawValue)", "reason": "\(reason)"])
        // The App Store may have the answer from an earlier attempt.
        return settle(call, call.isUncertain ? .unknown : .refused, reason, answer: answer)
      }
      let next = clock.now() + Self.backoff.seconds(afterFailures: call.attempts + 1)
      // The next attempt repeats a body that the App Store may have. Otherwise it decides anew.
      let keepsBody = call.isUncertain || error.mayBeCarriedOut
      return WorkOutcome(
        .retry,
        [
          StoreCallRows.table.retry(
            call.id, of: lease, at: next, because: reason, isAttempt: true,
            setting: keepsBody ? "" : ", body = NULL, preferred_by = NULL")
        ]
      ) { metrics.queuedStoreCall(call, "failed") }
    }
    return settle(call, .sent, nil, answer: answer)
  }

  /// Ends a call, and records the end of a refund request for support.
  private func settle(
    _ call: StoreCall, _ outcome: StoreCallOutcome, _ reason: String?, answer: SentRefundAnswer? = nil
  ) -> WorkOutcome {
    let instant = clock.now()
    var end = StoreCallRows.settle(call, outcome, because: reason, at: instant)
    if call.kind == .consumption {
      end = StoreCallRows.settle(end, recording: refundRecord(call, outcome, reason, answer, at: instant))
    }
    var queries = [end]
    if outcome == .sent { queries.append(StoreCallRows.settleRepetitions(of: call, at: instant)) }
    return WorkOutcome(outcome.result, queries) { metrics.queuedStoreCall(call, outcome.rawValue) }
  }
}

extension StoreCallQueue {
  /// Answers a question about a refund, or writes down why not.
  func answer(_ call: StoreCall, _ lease: WorkLease, of app: App) async throws -> WorkOutcome {
    guard let answer = try await pool.withConnection({ try await RefundAnswer(to: call, of: app, $0) })
    else {
      return settle(call, .notNeeded, "the transaction is not stored")
    }
    switch answer.decision(at: clock.now()) {
    case .wait(let reason): return pause(call, lease, call.isUncertain ? StoreCallRows.underWay : reason)
    case .settle(let outcome, let reason):
      // An earlier attempt had begun, so the App Store may have the answer.
      return settle(call, call.isUncertain ? .unknown : outcome, reason)
    case .send(let decided):
      // An erasure or another server may have ended the call.
      guard let (request, preferredBy) = try await recorded(decided, answer.preference?.by, for: call) else {
        return WorkOutcome(.done, [])
      }
      let sent = SentRefundAnswer(sentence: answer.sentence(of: request), preferredBy: preferredBy)
      return try await send(call, lease, answer: sent) { api throws(AppStoreServerError) in
        try await api.sendConsumption(of: call.transactionID, request, in: call.environment)
      }
    }
  }

  /// Writes the answer before it is sent. If an earlier attempt has no known end, this one repeats its answer: the App
  /// Store may have it.
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
  private func refundRecord(
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
  /// The ledger takes a token that it has not seen as the App Store's decision about the owner. So this writes the
  /// token to the purchase's row first: a renewal that carries it later does not move a purchase that support has
  /// transferred.
  private func tellAccountToken(_ call: StoreCall, _ lease: WorkLease) async throws -> WorkOutcome {
    guard let user = call.userID, try await reserve(user, for: call) else {
      return settle(call, .notNeeded, "the purchase has another owner, or names a user")
    }
    if clock.now() >= call.deadline { return settle(call, .late, "the App Store did not take it") }
    return try await send(call, lease) { api throws(AppStoreServerError) in
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
