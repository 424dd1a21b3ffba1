import CoreMetrics
import FoundationEssentials
import HTTP
import Logging
import Postgres
import PrometheusText
import Sockets
import Subscriptions
import Synchronization

/// Takes entries in and commits them together: what arrives while a commit is under way goes into the
/// next one. A lone entry waits for nothing but the end of its event loop's round.
final class LedgerWriter: Sendable {
  private let pool: PostgresPool
  private let headers = JWSHeaderStore()
  private let recentNotifications: RecentNotifications
  private let catalog: AppCatalog
  private let clock: ServiceClock
  private let logger: Logger
  private let metrics: ServiceMetrics
  private let queue: Mutex<LedgerQueue<Waiting>>
  private let patience: Duration
  private let executors: [any TaskExecutor]
  /// How many lanes there have been.
  private let lanes = Atomic(0)

  /// One who waits, as an object: it goes from hand to hand, and an entry is large.
  final class Waiting: Sendable {
    let entry: LedgerEntry
    let trace = TraceContext.current
    let continuation: CheckedContinuation<LedgerReceipt, any Error>

    init(entry: LedgerEntry, continuation: CheckedContinuation<LedgerReceipt, any Error>) {
      self.entry = entry
      self.continuation = continuation
    }
  }

  init(
    pool: PostgresPool, recentNotifications: RecentNotifications, catalog: AppCatalog, clock: ServiceClock,
    logger: Logger, metrics: ServiceMetrics, queue: sending LedgerQueue<Waiting> = LedgerQueue()
  ) {
    self.pool = pool
    self.recentNotifications = recentNotifications
    executors = pool.executors
    self.catalog = catalog
    self.clock = clock
    self.logger = logger
    self.metrics = metrics
    patience = queue.patience
    self.queue = Mutex(queue)
    metrics.registry.beforeRendering { [weak self] in
      metrics.ledger.queue.set(self?.queue.withLock { $0.count } ?? 0)
    }
  }

  /// Takes in one entry.
  /// - Returns: once it is committed.
  /// - Throws: ``ServiceError``: `database_unavailable`, `internal`.
  func record(_ entry: LedgerEntry) async throws -> LedgerReceipt {
    var receipt = try await committed(entry)
    // Whoever asks is answered by what is his alone. Nobody else does.
    if receipt.areHoldingsUnread, entry.isValidation, let app = entry.app,
      let customer = entry.asks(about: receipt)
    {
      receipt.holdings = try await holdings(of: customer, in: app)
    }
    return receipt
  }

  private func holdings(of customer: Customer, in app: App) async throws -> Holdings {
    do {
      return try await pool.holdings(
        users: customer.userID.map { [$0] } ?? [], devices: customer.deviceID.map { [$0] } ?? []
      ).holdings(of: customer, in: app)
    } catch let error as PostgresError where error.isAnsweredUnavailable {
      if error.isSchemaIncomplete { logger.reportIncompleteSchema(error) }
      throw ServiceError.databaseUnavailable
    } catch {
      throw ServiceError.internalError
    }
  }

  private func committed(_ entry: LedgerEntry) async throws -> LedgerReceipt {
    try await withCheckedThrowingContinuation { continuation in
      let waiting = Waiting(entry: entry, continuation: continuation)
      let round = LoopRound.current.map { round in
        let id = ObjectIdentifier(round)
        round.atEnd(for: self) { self.roundEnds(id) }
        return id
      }
      switch queue.withLock({ $0.add(waiting, at: .now, in: round) }) {
      case .waits: break
      case .startsWatch: watch()
      case .startsLane: startLane()
      case .refused:
        metrics.ledger.unavailable.increment()
        continuation.resume(throwing: ServiceError.databaseUnavailable)
      }
    }
  }

  private func roundEnds(_ round: ObjectIdentifier) {
    switch queue.withLock({ $0.roundEnds(round, at: .now) }) {
    case .goesOn: break
    case .startsWatch: watch()
    case .startsLane: startLane()
    }
  }

  /// A lane runs where answers are read, which spares it two changes of threads for each round trip, or one where there
  /// are several such threads and its connection belongs to another.
  private func startLane() {
    let executor = executors[lanes.add(1, ordering: .relaxed).newValue % executors.count]
    Task(executorPreference: executor) { await self.runLane() }
  }

  private func runLane() async {
    var batch = queue.withLock { $0.first(at: .now) }
    while let current = batch {
      await commit(current)
      batch = queue.withLock { $0.next(at: .now) }
    }
  }

  /// Looks after those who wait until nobody does.
  private func watch() {
    Task {
      while true {
        try? await Task.sleep(for: patience)
        switch queue.withLock({ $0.overdue(at: .now) }) {
        case .ends: return
        case .goesOn: break
        case .startsLane: startLane()
        }
      }
    }
  }

  /// Commits a batch, and answers all of its entries. An entry that is at fault, or that meets a lock, fails alone.
  private func commit(_ batch: [Waiting]) async {
    if batch.count == 1 { return await commit(batch[0], lockTimeout: LedgerLockTimeout.alone) }
    if await isAnswered(batch, lockTimeout: LedgerLockTimeout.shared) { return }
    var blocked: [Waiting] = []
    for waiting in batch where await !isAnswered([waiting], lockTimeout: LedgerLockTimeout.probe) {
      blocked.append(waiting)
    }
    for waiting in blocked {
      await commit(waiting, lockTimeout: LedgerLockTimeout.alone / blocked.count)
    }
  }

  private func commit(_ waiting: Waiting, lockTimeout: Duration) async {
    _ = await isAnswered([waiting], lockTimeout: lockTimeout, isLastAttempt: true)
  }

  /// Runs a transaction for these entries. Log lines of a lone entry have its trace; those of a batch have none.
  /// - Returns: whether the entries were answered. If not, nothing was written: one of several is at fault, or meets a
  ///   lock.
  private func isAnswered(
    _ batch: [Waiting], lockTimeout: Duration, isLastAttempt: Bool = false
  ) async -> Bool {
    await TraceContext.$current.withValue(batch.count == 1 ? batch[0].trace : nil) {
      await answer(batch, lockTimeout, isLastAttempt)
    }
  }

  private func answer(_ batch: [Waiting], _ lockTimeout: Duration, _ isLastAttempt: Bool) async -> Bool {
    do {
      let receipts = try await run(batch.map(\.entry), lockTimeout)
      for (waiting, receipt) in zip(batch, receipts) {
        // First, so that whoever was answered finds it counted.
        metrics.ledger.record(waiting.entry, receipt)
        waiting.continuation.resume(returning: receipt)
      }
    } catch let error as PostgresError where error.isUnavailable {
      logger.error("the database is unavailable", metadata: ["reason": "\(error)"])
      metrics.ledger.unavailable.increment(by: batch.count)
      for waiting in batch { waiting.continuation.resume(throwing: ServiceError.databaseUnavailable) }
    } catch  where batch.count > 1 {
      return false
    } catch let error as PostgresError where error.sqlState == "55P03" && !isLastAttempt {
      return false
    } catch let error as PostgresError where error.isSchemaIncomplete {
      // A notification that is kept now would collide with the rows that a restore brings.
      logger.reportIncompleteSchema(error)
      metrics.ledger.unavailable.increment(by: batch.count)
      for waiting in batch { waiting.continuation.resume(throwing: ServiceError.databaseUnavailable) }
    } catch let error as PostgresError where error.isPassing {
      // Answered 200 it would wait for a replay; unanswered, the App Store brings it again.
      logger.warning("the database did not take an entry now", metadata: ["reason": "\(error)"])
      metrics.ledger.unavailable.increment(by: batch.count)
      for waiting in batch { waiting.continuation.resume(throwing: ServiceError.databaseUnavailable) }
    } catch {
      logger.error("an entry could not be written", metadata: ["reason": "\(error)"])
      metrics.ledger.failed.increment(by: batch.count)
      for waiting in batch { await commitWithoutFacts(waiting) }
    }
    return true
  }

  /// Keeps at least the notification of an entry that cannot be taken in: the fault is ours, the App Store
  /// stops asking after a few days, and a replay can make it good.
  private func commitWithoutFacts(_ waiting: Waiting) async {
    guard var notification = waiting.entry.notification, notification.obstacle != .failed,
      !waiting.entry.isReplay
    else {
      waiting.continuation.resume(throwing: ServiceError.internalError)
      return
    }
    notification.obstacle = .failed
    let entry = LedgerEntry(
      app: nil, originalTransactionID: waiting.entry.originalTransactionID, notification: notification,
      instant: waiting.entry.instant)
    await commit([Waiting(entry: entry, continuation: waiting.continuation)])
  }

  private func run(_ given: [LedgerEntry], _ lockTimeout: Duration) async throws -> [LedgerReceipt] {
    var entries = given
    let parts = entries.compactMap(\.notification).flatMap(\.payload.parts)
    let arrived = entries.lazy.filter { !$0.isReplay }.compactMap { $0.notification?.uuid }
    var supposedlyKept = recentNotifications.known(among: arrived)
    var (attempts, lookups) = (0, 0)
    while true {
      do {
        let headerIDs = parts.isEmpty ? JWSHeaderIDs() : try await headers.ids(for: parts, in: pool)
        let batch = LedgerBatch(
          entries: entries, supposedlyKept: supposedlyKept, lockTimeout: lockTimeout, headerIDs: headerIDs,
          catalog: catalog, clock: clock, logger: logger, metrics: metrics)
        let start = ContinuousClock.now
        let receipts = try await pool.withTransaction { connection in try await batch.run(on: connection) }
        metrics.ledger.commitTime.record((.now - start).inSeconds)
        recentNotifications.insert(arrived)
        return receipts
      } catch let error as PostgresError where error.isRetryable && attempts < 3 {
        attempts += 1
      } catch let error as PostgresError where error.sqlState == "23505" && attempts < 3 {
        // Somebody else wrote one of the transactions just now, as part of another purchase: the next attempt sees it.
        attempts += 1
      } catch is NotificationsNotKept {
        logger.notice("notifications that were kept are not found any more, and are taken in again")
        supposedlyKept = []
      } catch let found as TransactionsElsewhere where attempts < 3 {
        attempts += 1
        entries = entries.map { $0.movedHome(found.homes) }
      } catch let error as PostgresError where error.isOfHeaders && lookups < 2 {
        headers.forget()
        lookups += 1
      }
    }
  }
}
