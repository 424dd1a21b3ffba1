import Actions
import Configuration
import CoreMetrics
import Customers
import FoundationEssentials
import HTTP
import Logging
import Postgres
import PrometheusText
import Requests
import Subscriptions
import Synchronization
import Work

/// Records entries with group commit: entries that arrive while a commit is under way share the next one. A lone entry
/// is committed at once.
package final class LedgerWriter: Sendable {
  private let pool: PostgresPool
  private let headers = JWSHeaderStore()
  private let recentNotifications: RecentNotifications
  private let catalog: AppCatalog
  private let clock: ServiceClock
  private let logger: Logger
  private let metrics: LedgerMetrics
  let effects: [any LedgerEffect]
  private let queue: Mutex<CommitQueue<Waiting>>
  private let timeout: Duration

  /// An entry with the caller that waits for its commit. An object, since an entry is large and is passed on often.
  final class Waiting: Sendable, LockedTogether {
    let entry: LedgerEntry
    let trace = TraceContext.current
    let continuation: CheckedContinuation<LedgerReceipt, any Error>

    init(entry: LedgerEntry, continuation: CheckedContinuation<LedgerReceipt, any Error>) {
      self.entry = entry
      self.continuation = continuation
    }

    var lockKeys: [LedgerLockKey] { entry.lockKeys }
  }

  package convenience init(
    pool: PostgresPool, recentNotifications: RecentNotifications, catalog: AppCatalog,
    effects: [any LedgerEffect], clock: ServiceClock, logger: Logger, metrics: LedgerMetrics
  ) {
    self.init(
      pool: pool, recentNotifications: recentNotifications, catalog: catalog, effects: effects, clock: clock,
      logger: logger, metrics: metrics, queue: CommitQueue())
  }

  init(
    pool: PostgresPool, recentNotifications: RecentNotifications, catalog: AppCatalog,
    effects: [any LedgerEffect], clock: ServiceClock, logger: Logger, metrics: LedgerMetrics,
    queue: sending CommitQueue<Waiting>
  ) {
    self.pool = pool
    self.recentNotifications = recentNotifications
    self.catalog = catalog
    self.clock = clock
    self.logger = logger
    self.metrics = metrics
    self.effects = effects
    timeout = queue.timeout
    self.queue = Mutex(queue)
    metrics.registry.beforeRendering { [weak self] in
      metrics.queue.set(self?.waitingCount ?? 0)
    }
  }

  /// The number of entries that wait for the next commit.
  var waitingCount: Int { queue.withLock { $0.count } }

  /// Records one entry.
  /// - Returns: the receipt, once the entry is committed.
  /// - Throws: ``ServiceError``: `database_unavailable`, `internal`; ``SupportRefusal`` for a transfer;
  ///   ``DeviceSecretChanged`` for an entry with an admission.
  package func record(_ entry: LedgerEntry) async throws -> LedgerReceipt {
    var receipt = try await committed(entry)
    // Only a validation is answered from the customer's own records.
    if receipt.areCustomerRecordsUnread, entry.isValidation, let app = entry.app,
      let customer = entry.asks(about: receipt)
    {
      receipt.customerRecords = try await customerRecords(of: customer, in: app, at: entry.instant)
    }
    return receipt
  }

  private func customerRecords(
    of customer: Customer, in app: App, at instant: Date
  ) async throws -> CustomerRecords {
    do {
      return try await pool.customerRecords(
        users: customer.userID.map { [$0] } ?? [], devices: customer.deviceID.map { [$0] } ?? []
      ).customerRecords(of: customer, in: app, at: instant)
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
      switch queue.withLock({ $0.add(waiting, at: .now) }) {
      case .waits: break
      case .startsWatch: watch()
      case .startsWorker: startWorker()
      case .refused:
        metrics.unavailable.increment()
        continuation.resume(throwing: ServiceError.databaseUnavailable)
      }
    }
  }

  private func startWorker() {
    Task(executorPreference: pool.executor) { [self] in
      while let batch = queue.withLock({ $0.next(at: .now) }) { await commit(batch) }
    }
  }

  /// Starts workers for entries that wait too long, until no entry waits.
  private func watch() {
    Task {
      while true {
        try? await Task.sleep(for: timeout)
        switch queue.withLock({ $0.overdue(at: .now) }) {
        case .ends: return
        case .continues: break
        case .startsWorker: startWorker()
        }
      }
    }
  }

  /// Commits a batch and answers its entries. A bad entry fails alone; entries that meet a lock are set aside, so that
  /// they do not delay the others.
  private func commit(_ batch: [Waiting]) async {
    if await commitAndAnswer(batch, lockTimeout: LockTimeout.shared) { return }
    var blocked: [Waiting] = []
    var keys: Set<LedgerLockKey> = []
    for waiting in batch {
      // A lone entry has just met its lock.
      if batch.count > 1, keys.isDisjoint(with: waiting.lockKeys),
        await commitAndAnswer([waiting], lockTimeout: LockTimeout.probe)
      {
        continue
      }
      blocked.append(waiting)
      keys.formUnion(waiting.lockKeys)
    }
    if queue.withLock({ $0.setAside(blocked) }) { startSlowWorker() }
  }

  /// Waits for the locks of the entries that were set aside. If the first entry of a group does not get its lock, the
  /// group fails together.
  private func startSlowWorker() {
    Task(executorPreference: pool.executor) { [self] in
      while let (first, groups) = queue.withLock({ $0.nextGroup() }) {
        let timeout = max(LockTimeout.probe, LockTimeout.alone / groups)
        let isGranted = await commitAndAnswer([first], lockTimeout: timeout)
        let (refused, startsWorker) = queue.withLock { $0.endGroup(isGranted: isGranted, at: .now) }
        if startsWorker { startWorker() }
        if !refused.isEmpty { refuse(refused) }
      }
    }
  }

  /// Answers entries whose lock was not granted. After 200 a notification would wait for a replay; after 503 the App
  /// Store sends it again.
  private func refuse(_ entries: [Waiting]) {
    var metadata = Self.metadata(of: entries, because: "a lock was not granted in time")
    metadata["entries"] = "\(entries.count)"
    TraceContext.$current.withValue(entries.count == 1 ? entries[0].trace : nil) {
      logger.warning("an entry is answered 503", metadata: metadata)
    }
    metrics.unavailable.increment(by: entries.count)
    for waiting in entries { waiting.continuation.resume(throwing: ServiceError.databaseUnavailable) }
  }

  /// Runs a transaction for these entries. Log lines of a lone entry have its trace; those of a batch have none.
  /// - Returns: whether the entries were answered. If not, nothing was written: one of them is bad, or its row is
  ///   locked.
  private func commitAndAnswer(_ batch: [Waiting], lockTimeout: Duration) async -> Bool {
    await TraceContext.$current.withValue(batch.count == 1 ? batch[0].trace : nil) {
      await commitAndAnswerTraced(batch, lockTimeout)
    }
  }

  private func commitAndAnswerTraced(_ batch: [Waiting], _ lockTimeout: Duration) async -> Bool {
    do {
      let receipts = try await run(batch.map(\.entry), lockTimeout)
      for (waiting, receipt) in zip(batch, receipts) {
        if receipt.isSecretChanged {
          waiting.continuation.resume(throwing: DeviceSecretChanged())
          continue
        }
        // Before the answer, so that a client that was answered finds its request counted.
        metrics.record(waiting.entry, receipt)
        waiting.continuation.resume(returning: receipt)
      }
    } catch let error as PostgresError where error.isUnavailable {
      logger.error("the database is unavailable", metadata: ["reason": "\(error)"])
      metrics.unavailable.increment(by: batch.count)
      for waiting in batch { waiting.continuation.resume(throwing: ServiceError.databaseUnavailable) }
    } catch  where batch.count > 1 {
      return false
    } catch let refusal as SupportRefusal {
      for waiting in batch { waiting.continuation.resume(throwing: refusal) }
    } catch let error as PostgresError
      where batch[0].entry.claim?.admission != nil && DeviceSecretRows.isChange(error)
    {
      for waiting in batch { waiting.continuation.resume(throwing: DeviceSecretChanged()) }
    } catch let error as PostgresError where error.isLockNotGranted {
      return false
    } catch let error as PostgresError where error.isSchemaIncomplete {
      // A notification that is kept now would collide with the rows that a restore inserts.
      logger.reportIncompleteSchema(error)
      metrics.unavailable.increment(by: batch.count)
      for waiting in batch { waiting.continuation.resume(throwing: ServiceError.databaseUnavailable) }
    } catch let error as PostgresError where error.isTransient {
      // After 200 it would wait for a replay; after 503 the App Store sends it again.
      logger.warning(
        "an entry is answered 503", metadata: Self.metadata(of: batch, because: error))
      metrics.unavailable.increment(by: batch.count)
      for waiting in batch { waiting.continuation.resume(throwing: ServiceError.databaseUnavailable) }
    } catch {
      logger.error("an entry could not be written", metadata: Self.metadata(of: batch, because: error))
      metrics.failed.increment(by: batch.count)
      for waiting in batch { await commitWithoutFacts(waiting) }
    }
    return true
  }

  private static func metadata(of batch: [Waiting], because reason: Any) -> Logger.Metadata {
    var metadata: Logger.Metadata = ["reason": "\(reason)"]
    guard let entry = batch.first?.entry else { return metadata }
    if let notification = entry.notification {
      metadata["notification"] = "\(notification.uuid.uuidString.lowercased())"
    }
    if let app = entry.app?.bundleID ?? entry.notification?.bundleID { metadata["app"] = "\(app)" }
    if let id = entry.originalTransactionID { metadata["original-transaction"] = "\(id)" }
    return metadata
  }

  /// Keeps at least the notification of an entry that cannot be recorded: the fault is the server's, the App Store
  /// stops retrying after a few days, and a replay can repair it.
  private func commitWithoutFacts(_ waiting: Waiting) async {
    guard var notification = waiting.entry.notification, notification.pendingReason != .failed,
      !waiting.entry.isReplay
    else {
      waiting.continuation.resume(throwing: ServiceError.internalError)
      return
    }
    notification.pendingReason = .failed
    let entry = LedgerEntry(
      originalTransactionID: waiting.entry.originalTransactionID, because: .notification(notification),
      instant: waiting.entry.instant)
    await commit([Waiting(entry: entry, continuation: waiting.continuation)])
  }

  private func run(_ given: [LedgerEntry], _ lockTimeout: Duration) async throws -> [LedgerReceipt] {
    var entries = given
    // Those of transactions that are stored under another purchase than the rest of their entry.
    var others: [LedgerEntry] = []
    let parts = entries.compactMap(\.notification).flatMap(\.payload.parts)
    let arrived = entries.lazy.filter { !$0.isReplay }.compactMap { $0.notification?.uuid }
    var supposedlyKept = recentNotifications.known(among: arrived)
    var (attempts, lookups) = (0, 0)
    while true {
      do {
        let headerIDs = parts.isEmpty ? JWSHeaderIDs() : try await headers.ids(for: parts, in: pool)
        let transaction = LedgerTransaction(
          entries: entries + others, supposedlyKept: supposedlyKept, lockTimeout: lockTimeout,
          headerIDs: headerIDs, catalog: catalog, effects: effects, clock: clock, logger: logger,
          metrics: metrics)
        let start = ContinuousClock.now
        let receipts = try await transaction.commit(in: pool)
        metrics.commitTime.record((.now - start).inSeconds)
        recentNotifications.insert(arrived)
        return Array(receipts.prefix(given.count))
      } catch let error as PostgresError where error.isRetryable && attempts < 3 {
        attempts += 1
      } catch let error as PostgresError where error.sqlState == "23505" && attempts < 3 {
        // Another server has just written one of the transactions as part of another purchase: the next attempt reads
        // it.
        attempts += 1
      } catch is NotificationsNotKept {
        logger.notice("stored notifications are missing from the database; recording them again")
        supposedlyKept = []
      } catch let found as TransactionsElsewhere where attempts < 3 {
        attempts += 1
        let parts = entries.map { $0.reassigned(found.homes) }
        entries = parts.compactMap(\.first)
        others = others.flatMap { $0.reassigned(found.homes) } + parts.flatMap { $0.dropFirst() }
      } catch is RowsChanged where attempts < 3 {
        attempts += 1
      } catch let error as PostgresError where error.isOfHeaders && lookups < 2 {
        headers.forget()
        lookups += 1
      }
    }
  }
}

/// A cache of notifications that this server has recently committed.
///
/// A repeated notification costs one lookup by uuid: its purchase is neither locked nor read. The cache may be wrong,
/// since the database may have been restored to an earlier state. Each notification has one slot, which the next one
/// with the same slot overwrites, so the cache never takes more than 2 MB.
package final class RecentNotifications: Sendable {
  private static let bits = 18
  private let slots = Mutex([UInt64](repeating: 0, count: 1 << bits))

  package init() {}

  func insert(_ notifications: some Sequence<UUID>) {
    slots.withLock { slots in
      for notification in notifications {
        let mark = Self.mark(notification)
        slots[Self.slot(of: mark)] = mark
      }
    }
  }

  /// The notifications that the cache has.
  func known(among notifications: some Sequence<UUID>) -> Set<UUID> {
    slots.withLock { slots in
      notifications.reduce(into: []) { known, notification in
        let mark = Self.mark(notification)
        if slots[Self.slot(of: mark)] == mark { known.insert(notification) }
      }
    }
  }

  /// 64 of the 122 random bits of a uuid (RFC 9562 §5.4). A collision is a wrong guess like any other.
  private static func mark(_ notification: UUID) -> UInt64 {
    withUnsafeBytes(of: notification.uuid) {
      $0.loadUnaligned(as: UInt64.self) ^ $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    }
  }

  /// Fibonacci hashing.
  private static func slot(of mark: UInt64) -> Int {
    Int(truncatingIfNeeded: (mark &* 0x9E37_79B9_7F4A_7C15) >> UInt64(64 - bits))
  }
}

/// Notifications that ``RecentNotifications`` has are missing: the database was restored, or retention has deleted
/// them.
struct NotificationsNotKept: Error {}
