import AppStore
import Foundation
import Logging
import Postgres
import Subscriptions

/// Asks the App Store about purchases that give access by an old proof of a client.
///
/// What Apple signed does not expire. A proof from before receiptd began to read the notification history may be from before a
/// refund of which no notification tells. The ledger marks such a purchase in the commit that records it. The request that
/// brought the proof asks at once and waits for ``patience``; the job asks until the App Store has answered.
struct OldProofs: Sendable {
  /// Waits longer than a request, because jobs can.
  let lookup: StoreLookup
  let ledger: LedgerWriter
  let pool: PostgresPool
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger

  /// The age from which a proof is old, in seconds.
  static let age: TimeInterval = 86_400
  /// How long the request of a client waits for the App Store.
  static let patience = Duration.seconds(1)
  /// The most purchases of one request about which the App Store is asked at once; the job asks about the others.
  static let maximumAtOnce = 4
  private static let batch = 16
  /// The time from an attempt that failed to the next one. It outlives the longest attempt.
  private static let lease: TimeInterval = 600

  // MARK: Requests

  /// Asks at once about the purchase of a request, if its proof is old.
  /// - Returns: the receipt of the App Store's answer; the given one if there is nothing to ask, or no answer in time.
  func confirmed(_ receipt: LedgerReceipt, of entry: LedgerEntry) async -> LedgerReceipt {
    guard receipt.oldProof != nil, let id = receipt.subscription?.originalTransactionID,
      let api = entry.app.flatMap({ lookup.apis[$0.bundleID] })
    else { return receipt }
    do {
      let rows = try await pool.query(OldProofRows.claim(id, at: clock.now(), lease: Self.lease))
      guard let due = try rows.first.map(OldProofRows.Due.init) else { return receipt }
      do {
        // Any client can own many purchases, and the other requests need a part of Apple's rate.
        let once = api.with(timeout: Self.patience, maximumAge: .zero).forOneRequest().forUnknownIDs()
        return try await ask(about: due, entry, from: once) ?? receipt
      } catch {
        _ = try await pool.query(OldProofRows.release(id, at: clock.now()))
        throw error
      }
    } catch {
      logger.info(
        "the App Store did not answer in time about an old proof; it will be asked again",
        metadata: ["purchase": "\(id)", "reason": "\(Self.reason(error))"])
      return receipt
    }
  }

  /// Asks at once about the first purchases of a request, side by side.
  func confirm(_ receipts: [(entry: LedgerEntry, receipt: LedgerReceipt)]) async {
    await withTaskGroup { group in
      for (entry, receipt) in receipts.filter({ $0.receipt.oldProof != nil }).prefix(Self.maximumAtOnce) {
        group.addTask { _ = await confirmed(receipt, of: entry) }
      }
    }
  }

  // MARK: Job

  /// Asks about all purchases that are due, every 20 seconds.
  var job: BackgroundJob {
    BackgroundJob("old proofs", every: .seconds(20), retryEvery: .seconds(60)) { try await run() }
  }

  /// Asks about all purchases that are due.
  /// - Returns: the number of purchases that were due.
  /// - Throws: an error that concerns all purchases.
  @discardableResult
  func run() async throws -> Int {
    // Without a key the purchases wait: it may be configured later.
    let bundleIDs = catalog.apps.map(\.bundleID).filter { lookup.apis[$0] != nil }
    guard !bundleIDs.isEmpty else { return 0 }
    var count = 0
    while true {
      let due = try await pool.query(
        OldProofRows.claimDue(of: bundleIDs, at: clock.now(), lease: Self.lease, limit: Self.batch)
      ).map(OldProofRows.Due.init)
      let outage = await withTaskGroup(of: (any Error)?.self) { group in
        for purchase in due { group.addTask { await askAlone(about: purchase) } }
        return await group.reduce(nil) { $0 ?? $1 }
      }
      if let outage { throw outage }
      count += due.count
      if due.count < Self.batch { return count }
    }
  }

  /// Asks about one purchase. If that fails, the others go on.
  /// - Returns: an error that concerns all purchases.
  private func askAlone(about due: OldProofRows.Due) async -> (any Error)? {
    guard let app = catalog[due.bundleID], let api = lookup.apis[due.bundleID] else { return nil }
    do {
      let entry = LedgerEntry(
        app: app, originalTransactionID: due.originalTransactionID, instant: clock.now())
      _ = try await ask(about: due, entry, from: api)
      return nil
    } catch {
      let concernsAll =
        (error as? AppStoreServerError)?.retryDecision == .stop || isDatabaseUnavailable(error)
      if concernsAll || Task.isCancelled || error is CancellationError { return error }
      logger.error(
        "the App Store's answer about an old proof could not be processed",
        metadata: ["purchase": "\(due.originalTransactionID)", "reason": "\(Self.reason(error))"])
      return nil
    }
  }

  // MARK: Ask

  /// Asks about one purchase and records the answer.
  /// - Parameter entry: the entry that brought the proof; its facts are replaced by the App Store's.
  /// - Returns: the receipt; `nil` if the App Store has nothing to tell of the purchase.
  private func ask(
    about due: OldProofRows.Due, _ entry: LedgerEntry, from api: AppStoreServerAPI
  ) async throws -> LedgerReceipt? {
    guard let app = entry.app else { return nil }
    var receipt: LedgerReceipt?
    do {
      let state = try await lookup.state(
        of: due.transactionID, isSubscription: due.isSubscription, of: app, in: due.environment, from: api)
      var answer = entry
      answer.originalTransactionID = state.originalTransactionID
      (answer.transactions, answer.renewals) = (state.transactions, state.renewals)
      answer.action = .oldProof
      answer.instant = clock.now()
      receipt = try await ledger.record(answer)
    } catch let error as AppStoreServerError where error.retryDecision == .skip {
      logger.warning(
        "the App Store does not know a purchase that it signed",
        metadata: ["purchase": "\(due.originalTransactionID)", "reason": "\(error.reason)"])
    }
    _ = try await pool.query(OldProofRows.markAsked([due.originalTransactionID], at: clock.now()))
    return receipt
  }

  private static func reason(_ error: any Error) -> String {
    (error as? AppStoreServerError)?.reason ?? "\(error)"
  }
}
