import AppStore
import Configuration
import Customers
import Deliveries
import Foundation
import Ledger
import Logging
import Postgres
import Requests
import Subscriptions
import Synchronization
import Work

/// Asks the App Store about purchases that give access by an old proof of a client.
///
/// What Apple signed does not expire. A proof from before receiptd began to read the notification history may be from
/// before a refund of which no notification tells. The ledger marks such a purchase in the commit that records it. The
/// request that brought the proof asks at once and waits for ``patience``, as requests do that come meanwhile; the job
/// asks until the App Store has answered.
package struct OldProofs: Sendable {
  /// Waits longer for its turn and tries more often than a request, because jobs can. Each attempt has a request's
  /// timeout.
  package let lookup: StoreLookup
  let ledger: LedgerWriter
  let catalog: AppCatalog
  let work: WorkContext

  var pool: PostgresPool { work.pool }
  var clock: ServiceClock { work.clock }
  var logger: Logger { work.logger }

  private let questions = OpenQuestions()

  /// After an attempt without an answer the purchase waits for the end of its lease, except in an outage.
  private var queue: WorkQueue<OldProofRows.Due> {
    WorkQueue(
      OldProofRows.table, work, batch: 16, lease: OldProofRows.lease, lockTimeout: LockTimeout.shared,
      kind: { _ in .oldProof }, key: \.originalTransactionID,
      endsRun: { ($0 as? AppStoreServerError)?.retryDecision == .stop || isDatabaseUnavailable($0) },
      read: OldProofRows.Due.init)
  }

  /// How long the request of a client waits for the App Store.
  static let patience = Duration.seconds(1)
  /// The timeout of a question of a request. The request does not wait for all of it: a shorter timeout would count
  /// slow answers as an outage.
  private static let timeout = Duration.seconds(5)
  /// The most purchases of one request about which the App Store is asked at once; the job asks about the others.
  static let maximumAtOnce = 4

  // MARK: Requests

  /// Waits for the App Store's answer about the purchase of a request, if its proof is old. The first request asks.
  /// - Returns: the receipt after the answer; the given one if there is nothing to ask, or no answer in time.
  /// - Throws: an error of the ledger, which records the entry again.
  func confirmed(_ receipt: LedgerReceipt, of entry: LedgerEntry) async throws -> LedgerReceipt {
    guard await isAnswered(about: receipt) else { return receipt }
    return try await ledger.record(entry)
  }

  /// Waits for the answers about the first purchases of a request, side by side.
  func confirm(_ receipts: [LedgerReceipt]) async {
    await withTaskGroup(of: Void.self) { group in
      for receipt in receipts.filter({ $0.unconfirmedProof != nil }).prefix(Self.maximumAtOnce) {
        group.addTask { _ = await isAnswered(about: receipt) }
      }
    }
  }

  private func isAnswered(about receipt: LedgerReceipt) async -> Bool {
    guard let signedAt = receipt.unconfirmedProof, let stored = receipt.subscription,
      let api = lookup.apis[stored.bundleID]
    else { return false }
    let id = stored.originalTransactionID
    let proof = OpenQuestions.Proof(originalTransactionID: id, signedAt: signedAt)
    return await questions.isAnswered(about: proof, within: Self.patience) {
      await askOfRequest(about: id, from: api)
    }
  }

  /// Asks about the purchase of a request.
  /// - Returns: whether the App Store has answered, to this request or another.
  private func askOfRequest(about id: String, from api: AppStoreServerAPI) async -> Bool {
    do {
      let lease = WorkLease(at: clock.now(), for: OldProofRows.lease)
      let rows = try await pool.query(
        OldProofRows.claim(id, lease), lockTimeout: LockTimeout.shared)
      guard let due = try rows.first.map(OldProofRows.Due.init) else {
        return try await isAnsweredElsewhere(about: id)
      }
      do {
        // Any client can own many purchases, and the other requests need a part of Apple's rate.
        let once = api.with(timeout: Self.timeout, maximumAge: .zero).forOneRequest().forUnknownIDs()
        try await queue.settle(due, ask(about: due, from: once))
        return true
      } catch {
        await queue.giveBack(due, lease)
        throw error
      }
    } catch {
      logger.info(
        "the App Store did not answer about an old proof; it will be asked again",
        metadata: ["purchase": "\(id)", "reason": "\(Self.reason(error))"])
      return false
    }
  }

  /// Waits for the answer to another request or server that asks, or has asked.
  private func isAnsweredElsewhere(about id: String) async throws -> Bool {
    let clock = ContinuousClock()
    let end = clock.now + Self.patience
    while true {
      if try await pool.query(OldProofRows.isOpen(id)).isEmpty { return true }
      guard clock.now < end else { return false }
      try await Task.sleep(for: .milliseconds(25))
    }
  }

  // MARK: Job

  /// Asks about all purchases that are due, every 20 seconds.
  var job: BackgroundJob {
    BackgroundJob("old proofs", every: .seconds(20), retryEvery: .seconds(60)) { try await run() }
  }

  /// Asks about all purchases that are due, of each app and environment in turn. An outage of one ends only its own
  /// part.
  /// - Returns: the number of purchases that were due.
  /// - Throws: the first error that concerns all purchases of an app and environment.
  @discardableResult
  package func run() async throws -> Int {
    var count = 0
    var firstOutage: (any Error)?
    // Without a key the purchases wait: it may be configured later.
    for app in catalog.apps where lookup.apis[app.bundleID] != nil {
      for environment in [AppStore.Environment.production, .sandbox] {
        do {
          count += try await run(app.bundleID, environment)
        } catch {
          if error is CancellationError || isDatabaseUnavailable(error) { throw error }
          logger.warning(
            "the App Store does not answer about old proofs of an app",
            metadata: [
              "app": "\(app.bundleID)", "environment": "\(environment)", "reason": "\(Self.reason(error))",
            ])
          firstOutage = firstOutage ?? error
        }
      }
    }
    if let firstOutage { throw firstOutage }
    return count
  }

  private func run(_ bundleID: String, _ environment: AppStore.Environment) async throws -> Int {
    guard let api = lookup.apis[bundleID] else { return 0 }
    return try await queue.runAll { lease, limit in
      OldProofRows.claimDue(of: bundleID, in: environment, lease, limit: limit)
    } attempt: { due, _ in
      try await ask(about: due, from: api)
    }
  }

  // MARK: Ask

  /// Asks about one purchase and records the answers, which name no customer: the claims of clients stay with their
  /// requests.
  private func ask(about due: OldProofRows.Due, from api: AppStoreServerAPI) async throws -> WorkOutcome {
    guard let app = catalog[due.bundleID] else { return WorkOutcome(.waits, []) }
    // An unknown transaction may have the refund, unless the answers about others have ended the access.
    var (isKnown, hasAccess) = (true, true)
    for transaction in due.asked {
      do {
        let state = try await lookup.state(
          of: transaction, isSubscription: due.isSubscription, of: app, in: due.environment, from: api)
        guard due.isAnswered(by: state, about: transaction) else {
          throw AppStoreServerError.undecodableAnswer(
            status: 200, detail: "about another transaction, or older than the proof")
        }
        let answer = LedgerEntry(
          app: app, originalTransactionID: state.originalTransactionID, transactions: state.transactions,
          renewals: state.renewals, because: .answer(.oldProof), instant: clock.now())
        let receipt = try await ledger.record(answer)
        guard !receipt.isContradiction else {
          throw AppStoreServerError.undecodableAnswer(status: 200, detail: "contradicts what is stored")
        }
        hasAccess =
          receipt.subscription?.subscription.phase(at: answer.instant).status.grantsAccess ?? hasAccess
        if !due.isSettled(by: state) { isKnown = false }
      } catch let error as AppStoreServerError where error.meansUnknown {
        logger.warning(
          "the App Store does not know a transaction that it signed",
          metadata: ["purchase": "\(due.originalTransactionID)", "reason": "\(error.reason)"])
        isKnown = false
      }
    }
    return isKnown || !hasAccess
      ? WorkOutcome(.done, [OldProofRows.markAsked(due, at: clock.now())])
      : WorkOutcome(.waits, [OldProofRows.markUnknown(due, at: clock.now())])
  }

  private static func reason(_ error: any Error) -> String {
    (error as? AppStoreServerError)?.reason ?? "\(error)"
  }
}

/// The questions to the App Store about old proofs that are on their way, with the requests that wait for them.
///
/// A question goes on when no request waits for it any more. So its own timeout ends it, which tells the circuit
/// breaker of an outage; the shorter patience of a request does not.
final class OpenQuestions: Sendable {
  /// A purchase with the date of the proof. The answer to a question about an earlier proof may be from before a
  /// refund.
  struct Proof: Hashable, Sendable {
    var originalTransactionID: String
    var signedAt: Date
  }

  private let waiting = Mutex<[Proof: [AsyncStream<Bool>.Continuation]]>([:])

  /// Waits for the answer about a proof. The first request starts the question; the others wait for the same answer.
  ///
  /// - Parameter question: asks, and returns whether there is an answer.
  /// - Returns: whether there is an answer; `false` too if there is none within `patience`.
  func isAnswered(
    about proof: Proof, within patience: Duration,
    question: @escaping @Sendable () async -> Bool
  ) async -> Bool {
    let (answers, continuation) = AsyncStream.makeStream(of: Bool.self)
    let isFirst = waiting.withLock { waiting -> Bool in
      let isFirst = waiting[proof] == nil
      waiting[proof, default: []].append(continuation)
      return isFirst
    }
    if isFirst {
      Task { self.finish(proof, await question()) }
    }
    return await withTaskGroup(of: Bool.self) { group in
      group.addTask {
        for await isAnswered in answers { return isAnswered }
        return false
      }
      group.addTask {
        try? await Task.sleep(for: patience)
        return false
      }
      let isAnswered = await group.next() ?? false
      group.cancelAll()
      return isAnswered
    }
  }

  private func finish(_ proof: Proof, _ isAnswered: Bool) {
    let requests = waiting.withLock { $0.removeValue(forKey: proof) } ?? []
    for request in requests {
      request.yield(isAnswered)
      request.finish()
    }
  }
}

/// The statements that ask about the purchases that the ledger marked.
extension OldProofRows {
  /// A purchase about which the App Store is asked, with the mark. Another proof that comes meanwhile makes another
  /// mark, which the answer does not settle.
  struct Due: Sendable {
    var originalTransactionID: String
    var transactionID: String
    /// The transaction of the proof.
    var provenID: String
    var signedAt: Date
    var markedAt: Date
    var bundleID: String
    var environment: AppStore.Environment
    var isSubscription: Bool

    /// The transactions to ask about. A restored purchase has several, and the App Store signs a refund on one of them.
    var asked: [String] {
      if isSubscription { return [transactionID] }
      return [transactionID, provenID].reduce(into: [originalTransactionID]) { asked, id in
        if !asked.contains(id) { asked.append(id) }
      }
    }

    /// Whether an answer about one of these transactions is about it, and not older than the proof. The present state
    /// of a subscription may have another latest transaction, and after an app transfer a transaction has another
    /// original id.
    func isAnswered(by state: ProvenPurchase, about transactionID: String) -> Bool {
      let isAboutPurchase = isSubscription && state.originalTransactionID == originalTransactionID
      return state.transactions.contains {
        $0.fact.signedAt >= signedAt && (isAboutPurchase || $0.fact.transactionID == transactionID)
      }
    }

    /// Whether an answer has the present state. A transaction that another one replaced does not, without its
    /// successor.
    func isSettled(by state: ProvenPurchase) -> Bool {
      !isSubscription || state.transactions.contains { !$0.fact.isUpgraded }
    }

    init(_ row: Row) throws {
      originalTransactionID = try row.decode("original_transaction_id")
      transactionID = try row.decode("transaction_id")
      provenID = try row.decode("proven_id")
      signedAt = try row.decode("old_proof_signed_at")
      markedAt = try row.decode("old_proof_marked_at")
      bundleID = try row.decode("bundle_id")
      environment = AppStore.Environment(rawValue: try row.decode("environment"))
      isSubscription = try row.decode("is_subscription")
    }
  }

  /// One row if the App Store has not answered about an old proof of the purchase.
  static func isOpen(_ originalTransactionID: String) -> Query {
    """
    SELECT FROM subscriptions WHERE original_transaction_id = \(originalTransactionID)
      AND old_proof_due_at IS NOT NULL AND old_proof_asked_at IS NULL
    """
  }

  /// The queue of marked purchases. No attempt is counted: the time of the next one depends on the mark.
  static let table = WorkTable(
    "subscriptions", key: "original_transaction_id", due: "old_proof_due_at",
    isOpen: "old_proof_due_at IS NOT NULL", attempts: nil, lastError: nil)
  /// The App Store is asked about the purchase now.
  package static let requeuable = RequeuableQueue(
    "subscriptions", only: "a purchase that is known by an old proof alone"
  ) {
    key, instant in
    guard (1...20).contains(key.utf8.count), key.utf8.allSatisfy({ (48...57).contains($0) }) else {
      return nil
    }
    return """
      \(table.requeue(key, at: instant)) AND old_proof_due_at IS NOT NULL RETURNING bundle_id, original_transaction_id
      """
  }

  /// Outlives the longest attempt.
  static let lease: TimeInterval = 600

  /// Leases one purchase, if it is due, or would wait for the history.
  static func claim(_ originalTransactionID: String, _ lease: WorkLease) -> Query {
    table.claim(originalTransactionID, lease, or: "\(unescaped: isLeftToHistory)", returning: columns)
  }

  /// Leases due purchases of one app in one environment.
  static func claimDue(
    of bundleID: String, in environment: AppStore.Environment, _ lease: WorkLease, limit: Int
  ) -> Query {
    // A server whose clock is ahead wrote a later time.
    let ahead = lease.start + historyPatience + ServiceClock.serverTolerance
    let nextWeek = lease.start + unknownPeriod + ServiceClock.serverTolerance
    return table.claim(
      lease, where: "bundle_id = \(bundleID) AND environment = \(environment.rawValue)",
      or: """
        old_proof_due_at > \(ahead) AND (old_proof_unknown_at IS NULL OR old_proof_due_at > \(nextWeek))
        """, limit: "\(limit)", returning: columns)
  }

  private static let columns: Query = """
    original_transaction_id, transaction_id, bundle_id, environment, old_proof_signed_at, old_proof_marked_at,
    coalesce((
      SELECT t.transaction_id FROM transactions t
      WHERE t.original_transaction_id = subscriptions.original_transaction_id
        AND t.signed_at = subscriptions.old_proof_signed_at
      ORDER BY t.transaction_id LIMIT 1), transaction_id) AS proven_id,
    kind = 'Auto-Renewable Subscription' AS is_subscription
    """

  /// The time until the App Store is asked again about a purchase that it does not know, in seconds, in the first
  /// ``unknownPeriod``.
  private static let unknownInterval: TimeInterval = 86_400
  /// The first week since the mark, in seconds, and the time between two questions after it.
  private static let unknownPeriod: TimeInterval = 7 * 86_400

  /// Records that the App Store does not know a purchase, or a transaction of it, which it may know later: it is asked
  /// daily for a week, and then weekly.
  static func markUnknown(_ due: Due, at instant: Date) -> Query {
    """
    UPDATE subscriptions SET old_proof_asked_at = \(instant), old_proof_unknown_at = \(instant),
      old_proof_due_at = CASE WHEN old_proof_marked_at > \(instant - unknownPeriod)
        THEN \(instant + unknownInterval)::timestamptz ELSE \(instant + unknownPeriod)::timestamptz END
    WHERE original_transaction_id = \(due.originalTransactionID) AND old_proof_due_at IS NOT NULL
      AND old_proof_marked_at = \(due.markedAt) AND old_proof_signed_at = \(due.signedAt)
    """
  }

  /// Records that the App Store has answered about a purchase.
  static func markAsked(_ due: Due, at instant: Date) -> Query {
    """
    UPDATE subscriptions SET old_proof_asked_at = \(instant), old_proof_due_at = NULL, old_proof_unknown_at = NULL
    WHERE original_transaction_id = \(due.originalTransactionID) AND old_proof_due_at IS NOT NULL
      AND old_proof_marked_at = \(due.markedAt) AND old_proof_signed_at = \(due.signedAt)
    """
  }

  /// The number of purchases (`purchases`) of each app (`bundle_id`) that the App Store does not know.
  package static let unknown: Query = """
    SELECT bundle_id, count(*) AS purchases FROM subscriptions
    WHERE old_proof_due_at IS NOT NULL AND old_proof_unknown_at IS NOT NULL
    GROUP BY bundle_id ORDER BY bundle_id
    """

  /// The number of purchases (`purchases`) of each app (`bundle_id`) that were marked before an instant, and about
  /// which the App Store has not answered. An attempt moves the time at which they are due, not the time of the mark.
  package static func waiting(before instant: Date) -> Query {
    """
    SELECT bundle_id, count(*) AS purchases FROM subscriptions
    WHERE old_proof_due_at IS NOT NULL AND old_proof_asked_at IS NULL AND old_proof_marked_at <= \(instant)
    GROUP BY bundle_id ORDER BY bundle_id
    """
  }
}
