import Configuration
import CoreMetrics
import Customers
import FoundationEssentials
import Logging
import Postgres
import Subscriptions
import Work

/// Records a batch of entries in one transaction: locks, reads, decides, writes, commits.
///
/// It takes two round trips, however many entries there are: lock and read; write and commit. There is a third where an
/// app has its status on users' profiles (they are read with the second and written with the commit), and where a
/// stored transaction is updated (the commit must not be sent before the number of updated rows is known).
///
/// The locks are transaction-level advisory locks, first on purchases and then on customers, each kind in ascending
/// order, so two servers never deadlock. Unlike row locks they also cover rows that do not exist yet.
struct LedgerTransaction {
  let entries: [LedgerEntry]
  /// Notifications of these entries that are probably stored, so their purchases are neither locked nor read.
  var supposedlyKept: Set<UUID> = []
  /// How long the transaction waits for one lock.
  var lockTimeout = LockTimeout.alone
  let headerIDs: JWSHeaderIDs
  let catalog: AppCatalog
  let effects: [any LedgerEffect]
  let clock: ServiceClock
  let logger: Logger
  let metrics: LedgerMetrics

  /// Begins the transaction, records the entries and commits.
  ///
  /// - Returns: a receipt for each entry, in order.
  /// - Throws: ``NotificationsNotKept``, ``TransactionsElsewhere``, ``RowsChanged``, ``SupportRefusal`` or
  ///   `PostgresError`. Nothing was written unless that is of kind `.outcomeUnknown`.
  func commit(in pool: PostgresPool) async throws -> [LedgerReceipt] {
    try await pool.withTransaction { connection in try await run(on: connection) }
  }

  /// Records the entries in the transaction that is open on `connection`, and may commit it.
  func run(on connection: PostgresConnection) async throws -> [LedgerReceipt] {
    var (state, former) = try await read(connection)
    let receipts = entries.map { state.record($0) }
    return try await write(state, receipts, former, connection)
  }

  // MARK: Read

  /// Reads the purchases of the entries, and the users who have those that count.
  private func read(
    _ connection: PostgresConnection
  ) async throws -> (state: LedgerState, former: Set<UUID>) {
    // Entries without an app change no purchase, so the purchase's rows need not even be readable.
    let news = supposedlyKept.isEmpty ? entries : entries.filter { !isSupposedlyKept($0) }
    let withApp = news.filter { $0.app != nil }
    let ids = Set(withApp.compactMap(\.originalTransactionID)).sorted()
    let transactionIDs = Set(withApp.flatMap { $0.transactions.map(\.fact.transactionID) }).sorted()
    let notifications = entries.compactMap(\.notification)
    let shared = Set(
      withApp.filter { $0.app?.sharesPurchases ?? false }.compactMap(\.originalTransactionID)
    ).sorted()
    let assumed = withApp.compactMap { $0.claim?.admission }.filter(\.isAssumed)
    var reads = Statements()
    reads.add(
      AdvisoryLock.acquireForLookups(.purchase, Set(news.compactMap(\.lockName)), lockTimeout: lockTimeout))
    let kept =
      notifications.isEmpty
      ? nil
      : reads.add(NotificationRows.existing(notifications)) {
        (
          uuid: try $0.decode("notification_uuid", as: UUID.self),
          isErased: try $0.decode("is_erased", as: Bool.self)
        )
      }
    let purchases = ids.isEmpty ? nil : PurchaseReads(of: ids, transactionIDs, shared: shared, in: &reads)
    let changed =
      assumed.isEmpty
      ? nil : reads.add(DeviceSecretRows.changed(assumed), reading: DeviceSecretRows.decodeChanged)
    let answers = try await connection.answers(to: reads)

    var state = LedgerState()
    state.follows = { [effects] app in effects.contains { $0.follows(app) } }
    for (uuid, isErased) in try answers[kept] {
      state.keptNotifications.insert(uuid)
      if isErased { state.erasedNotifications.insert(uuid) }
    }
    guard supposedlyKept.isSubset(of: state.keptNotifications) else { throw NotificationsNotKept() }
    state.changedAdmissions = Set(try answers[changed])
    guard let purchases else { return (state, []) }
    let known = try answers[purchases.transactions]
    try checkHomes(of: known)
    for fact in known { state.load(fact) }
    let former = try purchases.load(answers, into: &state)
    return (state, former)
  }

  /// The reads of a batch's purchases.
  private struct PurchaseReads {
    let transactions: Statements.Handle<TransactionFact>
    private let renewals: Statements.Handle<RenewalFact>
    private let subscriptions: Statements.Handle<Row>
    private let freeAccess: Statements.Handle<Row>
    private let holders: Statements.Handle<(String, Holder)>?

    init(of ids: [String], _ transactionIDs: [String], shared: [String], in reads: inout Statements) {
      transactions = reads.add(
        TransactionRows.select(ids, or: transactionIDs), reading: { try TransactionRows.decode($0) })
      renewals = reads.add(RenewalRows.select(ids), reading: RenewalRows.decode)
      subscriptions = reads.add(SubscriptionRows.selectWithFormer(ids))
      freeAccess = reads.add(FreeAccessByApp.select)
      holders = shared.isEmpty ? nil : reads.add(HolderRows.select(shared), reading: HolderRows.decode)
    }

    /// - Returns: the users who have those of the purchases that count.
    func load(_ answers: Statements.Answers, into state: inout LedgerState) throws -> Set<UUID> {
      var former: Set<UUID> = []
      state.freeAccessByApp = try FreeAccessByApp(answers[freeAccess])
      for fact in try answers[renewals] { state.load(fact) }
      for row in try answers[subscriptions] {
        if let device = try SubscriptionRows.formerDevice(row) {
          let id = try row.decode("original_transaction_id", as: String.self)
          state.load(formerDevice: device, of: id)
          state.load(try PurchaseErasure(row), of: id)
        } else {
          let stored = try SubscriptionRows.decode(row)
          if stored.isCounted, let user = stored.owner?.customer.userID { former.insert(user) }
          state.load(stored, unconfirmedProof: try row.decode("unconfirmed_proof"))
        }
      }
      for (id, holder) in try answers[holders] { state.load(holder, of: id) }
      return former
    }
  }

  private func isSupposedlyKept(_ entry: LedgerEntry) -> Bool {
    guard !entry.isReplay, let notification = entry.notification else { return false }
    return supposedlyKept.contains(notification.uuid)
  }

  /// - Throws: ``TransactionsElsewhere`` where a transaction is stored as part of another purchase than its entry's.
  private func checkHomes(of known: [TransactionFact]) throws {
    let homes = Dictionary(
      known.lazy.map { ($0.transactionID, $0.originalTransactionID) }, uniquingKeysWith: { first, _ in first }
    )
    let elsewhere = entries.contains { entry in
      entry.app != nil
        && entry.transactions.contains { record in
          homes[record.fact.transactionID].map { $0 != record.fact.originalTransactionID } ?? false
        }
    }
    if elsewhere { throw TransactionsElsewhere(homes: homes) }
  }

  // MARK: Write

  private func write(
    _ state: LedgerState, _ receipts: [LedgerReceipt], _ former: Set<UUID>, _ connection: PostgresConnection
  ) async throws -> [LedgerReceipt] {
    let instant = entries.map(\.instant).max() ?? Date()
    let changed = state.changedSubscriptions
    var writes = Statements()
    let update = addFacts(of: state, changed, at: instant, to: &writes)
    let news = LedgerChanges(
      entries: Array(zip(entries, receipts)), purchases: state.purchaseChanges,
      notifications: state.newNotifications.map(\.notification), moves: state.moves, instant: instant)
    for effect in effects { writes.add(effect.statements(for: news)) }
    let erased = state.erasedPurchases
    if !erased.isEmpty {
      writes.add(ImpersonalFacts.subscriptions(erased))
      writes.add(ImpersonalFacts.reduce(erased, includesWaiting: false, at: instant))
    }
    let returned = state.purchasesWithErasedTokens
    if !returned.isEmpty { writes.add(ImpersonalFacts.renewalsWithoutTokens(returned)) }
    let changes = state.customerChanges
    let users = Set(changes.compactMap(\.customer.userID)).sorted()
    let devices = Set(changes.compactMap(\.customer.deviceID)).sorted()
    let readsCustomers = !users.isEmpty || !devices.isEmpty
    if readsCustomers {
      let locks = AdvisoryLock.acquire(.customer, Set(users.map(\.uuidString)).union(devices))
      let transfers = entries.compactMap(\.transfer)
      if !transfers.isEmpty { _ = try await connection.query(locks) }
      for transfer in transfers { try await transfer.check(connection) }
      writes.add(locks)
      let admissions = zip(entries, receipts).compactMap { entry, receipt in
        receipt.isSecretChanged ? nil : entry.claim?.admission
      }.filter { devices.contains($0.device) }
      if !admissions.isEmpty { writes.add(DeviceSecretRows.require(admissions)) }
      for move in state.moves where move.children != .stay {
        let purchase = move.subscription.current.originalTransactionID
        guard let app = catalog[move.subscription.current.bundleID], let former = move.previous?.deviceID,
          let device = move.customer.deviceID
        else { continue }
        writes.add(
          move.children == .follow
            ? DeviceRows.move(from: former, to: device, by: purchase, in: app, at: instant)
            : DeviceRows.giveBack(to: device, by: purchase, from: former, in: app))
      }
      if let notes = CustomerChanges.enqueue(changes, in: catalog, at: instant) { writes.add(notes) }
    }
    // The customers' other records: the rows written here need not be read back. Devices are read for the responses
    // alone, which are about the entries' apps.
    let recordReads =
      readsCustomers
      ? CustomerRecordReads(
        users: users, devices: devices, except: changed.map(\.stored.originalTransactionID),
        sharing: entries.contains { $0.app?.sharesPurchases ?? false },
        parentsOf: Set(
          entries.lazy.filter(\.isValidation).compactMap(\.app).filter(\.limitsDevices).map(\.bundleID)
        ).sorted(), in: &writes) : nil
    guard !writes.queries.isEmpty else { return receipts }
    let writer = ProfileWriter(catalog: catalog, clock: clock, logger: logger)
    let hasProfiles = writer.isNeeded(for: changes)
    // If the UPDATE finds fewer rows than expected, the transaction must not commit: COMMIT is sent after its response.
    let answers: Statements.Answers
    var ahead: Result<SavepointAttempt, PostgresError>?
    if hasProfiles {
      (answers, ahead) = try await connection.answers(
        to: writes, attempting: writer.selectsAhead(for: changes), within: ProfileWriter.timeout)
    } else if update != nil {
      answers = try await connection.answers(to: writes)
    } else {
      answers = try await connection.commit(after: writes)
    }
    if let update, answers.affected(by: update.handle) < update.count {
      throw RowsChanged()
    }
    guard let recordReads else { return receipts }

    var customerRecords: RecordsByCustomer
    do {
      customerRecords = try recordReads.records(in: answers, state.freeAccessByApp)
    } catch  where connection.isCommitted {
      logger.error("a customer's records cannot be read", metadata: ["reason": "\(error)"])
      return receipts.map { receipt in
        var receipt = receipt
        receipt.areCustomerRecordsUnread = true
        return receipt
      }
    }
    for subscription in changed { customerRecords.add(subscription.stored.asRow(at: instant)) }
    if hasProfiles {
      let unwritten = try await writer.write(
        changes, customerRecords: customerRecords, former: former, on: connection, ahead: ahead, commits: true
      )
      if !unwritten.isEmpty { metrics.profileWriteFailures.increment(by: unwritten.count) }
    }
    return zip(entries, receipts).map { entry, receipt in
      guard let customer = entry.asks(about: receipt), let app = entry.app else { return receipt }
      var receipt = receipt
      receipt.customerRecords = customerRecords.customerRecords(
        of: customer, in: app, at: entry.instant)
      if entry.isValidation, app.limitsDevices {
        receipt.hasParent = customerRecords[customer].appsOfParents.contains(app.bundleID)
      }
      return receipt
    }
  }

  /// Adds the statements that write notifications, facts and subscriptions.
  /// - Returns: the one that updates stored transactions, and the number of rows that it must touch.
  private func addFacts(
    of state: LedgerState, _ changed: [LedgerState.ChangedSubscription], at instant: Date,
    to writes: inout Statements
  ) -> (handle: Statements.Handle<Row>, count: Int)? {
    let notifications = state.newNotifications.map {
      NotificationRows.NewRow(
        notification: $0.notification, originalTransactionID: $0.originalTransactionID,
        outcome: $0.outcome, isProcessed: $0.isProcessed)
    }
    if !notifications.isEmpty { writes.add(NotificationRows.insert(notifications, headers: headerIDs)) }
    let unusable = notifications.map(\.notification).filter { $0.failure != nil }
    if !unusable.isEmpty { writes.add(NotificationRows.explain(unusable)) }
    for replayed in state.replayedNotifications {
      writes.add(
        NotificationRows.markReplayed(
          replayed.notification, originalTransactionID: replayed.originalTransactionID,
          outcome: replayed.outcome, isProcessed: replayed.isProcessed, at: instant))
    }
    let (known, unknown) = state.newTransactions
    if !unknown.isEmpty { writes.add(TransactionRows.insert(unknown, at: instant)) }
    let update =
      known.isEmpty
      ? nil : (handle: writes.add(TransactionRows.update(known, at: instant)), count: known.count)
    let late = state.lateFacts
    if !late.isEmpty { writes.add(LateFactRows.insert(late)) }
    let renewals = state.newRenewals
    if !renewals.isEmpty { writes.add(RenewalRows.upsert(renewals, at: instant)) }
    if !changed.isEmpty {
      writes.add(
        SubscriptionRows.upsert(
          changed.map(\.stored), validated: changed.map(\.isValidation), at: instant))
      writes.add(HolderRows.write(changed.map(\.holders).filter { !$0.isEmpty }))
    }
    let oldProofs = state.oldProofs
    if !oldProofs.isEmpty { writes.add(OldProofRows.mark(oldProofs, at: instant)) }
    return update
  }
}

/// Transactions that are stored as part of another purchase than the one they are signed for now.
///
/// After a transfer or migration of an app its purchases can have new original ids (`previousOriginalTransactionId`). A
/// stored transaction keeps its purchase, so that its refund ends the access that it granted. New transactions under
/// the new id are a purchase of their own.
struct TransactionsElsewhere: Error {
  /// The original id of each stored transaction.
  var homes: [String: String]
}

extension LedgerEntry {
  /// The same entry, about the purchase that its transactions are stored under. Transactions that are stored under
  /// several purchases become an entry for each; the first one has the renewal infos and the transactions that are new.
  func reassigned(_ homes: [String: String]) -> [LedgerEntry] {
    func home(_ record: TransactionRecord) -> String? { homes[record.fact.transactionID] }
    let known = transactions.filter { home($0) != nil }
    guard let latest = known.max(by: { $0.fact.purchaseDate < $1.fact.purchaseDate }).flatMap(home) else {
      return [self]
    }
    let first = known.compactMap(home).first { $0 == originalTransactionID } ?? latest
    var others: [LedgerEntry] = []
    for purchase in Set(known.compactMap(home)).subtracting([first]).sorted() {
      var other = self
      other.transactions = known.filter { home($0) == purchase }
      other.renewals = []
      other.cause = cause.beside
      others.append(other.moved(to: purchase))
    }
    var kept = self
    kept.transactions.removeAll { home($0).map { $0 != first } ?? false }
    return [kept.moved(to: first)] + others
  }

  private func moved(to purchase: String) -> LedgerEntry {
    var moved = self
    moved.originalTransactionID = purchase
    for index in moved.transactions.indices {
      moved.transactions[index].fact.originalTransactionID = purchase
    }
    for index in moved.renewals.indices { moved.renewals[index].fact.originalTransactionID = purchase }
    return moved
  }
}

extension LedgerEntry.Cause {
  /// The cause of an entry about another purchase with transactions of the same request. Only one entry stores the
  /// notification, or makes the transfer.
  fileprivate var beside: LedgerEntry.Cause {
    switch self {
    case .proof, .adoption, .answer: self
    case .notification, .replay, .transfer, .time: .answer(.refresh)
    }
  }
}

/// A stored transaction that the ledger read is gone or changed when it is updated: another server has written it as
/// part of another purchase, or retention has deleted it. The next attempt reads it again.
struct RowsChanged: Error {}
