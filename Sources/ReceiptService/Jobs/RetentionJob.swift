import Authentication
import Configuration
import Customers
import Deliveries
import Foundation
import Ledger
import Logging
import Postgres
import Subscriptions
import Support
import Work

/// Deletes notifications and transactions that are older than the settings allow, refused requests that are older than
/// ``RefusedAttemptLog/lifetime``, users that were not seen for ``SeenUsers/lifetime``, lifecycle events that are older
/// than ``LifecycleEvent/lifetime``, and secrets, consents and pairings of devices with nothing on record
/// (``UnusedDeviceRows``), in batches.
///
/// Any number of servers may run it: an advisory lock lets one of them delete at a time; the others find nothing to do.
struct RetentionJob: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let retention: Retention
  let clock: ServiceClock
  let logger: Logger

  /// Longer than the timeout of requests, because a batch may read from a cold disk.
  private static let batchTimeout = Duration.seconds(60)

  /// Runs every six hours. A run that failed for a lock of another session succeeds soon after.
  var job: BackgroundJob {
    BackgroundJob(
      "retention", every: .seconds(6 * 3_600), retryEvery: .seconds(600), countedAs: "retention"
    ) { try await run() }
  }

  /// Deletes all rows that are old enough.
  /// - Returns: the number of rows.
  @discardableResult
  func run() async throws -> Int {
    var deleted = 0
    for table in RetainedTable.allCases {
      let months = retention[table]
      // Notifications of apps that are not configured are deleted also without a setting.
      guard months != nil || table == .notifications else { continue }
      deleted += try await deleteOldRows(of: table, olderThan: months)
    }
    let instant = clock.now()
    deleted += try await deleteInBatches {
      RefusedAttemptRows.delete(before: instant - RefusedAttemptLog.lifetime, limit: $0)
    }
    deleted += try await deleteInBatches {
      SeenUserRows.delete(before: instant - SeenUsers.lifetime, limit: $0)
    }
    deleted += try await deleteInBatches { PairingCodeRows.delete(before: instant - 86_400, limit: $0) }
    deleted += try await deleteUnusedDevices(at: instant)
    let oldestEvent = instant - LifecycleEvent.lifetime
    deleted += try await deleteInBatches { OutboxRows.deleteUndelivered(before: oldestEvent, limit: $0) }
    return try await deleted
      + deleteInBatches { LifecycleEventRows.delete(before: oldestEvent, limit: $0) }
  }

  private static let batch = 2_000

  /// - Parameter query: deletes at most as many rows as its argument.
  private func deleteInBatches(_ query: (Int) -> Query) async throws -> Int {
    var deleted = 0
    while !Task.isCancelled {
      let rows = try await pool.query(query(Self.batch)).affected
      deleted += rows
      if rows < Self.batch { break }
    }
    return deleted
  }

  private func deleteUnusedDevices(at instant: Date) async throws -> Int {
    let oldest = instant - UnusedDeviceRows.lifetime
    let apps = catalog.apps.filter { $0.customer == .device }
    let withoutPairings = apps.filter { $0.free.limit(for: Household.limitFeature) == 0 }.map(\.bundleID)
    // Pairings first: a paired device is not unused.
    var deleted = try await deleteUnused(atOnce: Self.batch) {
      UnusedDeviceRows.page(of: withoutPairings, before: oldest, after: $0, limit: $1)
    } delete: {
      UnusedDeviceRows.deletePairings($0, before: oldest, at: instant)
    }
    deleted += try await deleteUnused(atOnce: Self.batch) {
      UnusedDeviceRows.page(before: oldest, after: $0, limit: $1)
    } delete: {
      UnusedDeviceRows.deleteSecrets($0, before: oldest, at: instant)
    }
    return try await deleted
      + deleteInBatches {
        UnusedDeviceRows.deleteConsents(in: apps.map(\.bundleID), before: oldest, limit: $0)
      }
  }

  /// Reads old rows page by page, and deletes those whose devices have nothing on record.
  /// - Parameters:
  ///   - page: the rows after the last one of the page before, at most as many as its second argument.
  ///   - delete: deletes rows whose devices still have nothing on record.
  private func deleteUnused<Old: UnusedDeviceRows.OldRow>(
    atOnce limit: Int, page: (Old?, Int) -> Query, delete: ([Old]) -> Query
  ) async throws -> Int {
    var deleted = 0
    var last: Old?
    while !Task.isCancelled {
      let answers = try await pool.transaction(pipeline: [LookupPlans.useIndexScans, page(last, limit)])
      let rows = try answers[1].map { try Old($0) }
      let unused = rows.filter(\.isUnused)
      // A purchase or a trial takes the device's lock, so none comes between the check and the deletion. Rows of
      // devices whose lock is not granted stay until the next run.
      deleted += try await LockedGroups.run(unused) { unused in
        let lock = CustomerStatusWriter.lock(
          unused.map { Customer.device($0.deviceID) }, timeout: LockedGroups.lockTimeout)
        return try await pool.transaction(pipeline: [lock, delete(unused)])[1].affected
      }.sum
      last = rows.last
      if rows.count < limit { break }
    }
    return deleted
  }

  private func deleteOldRows(of table: RetainedTable, olderThan months: Int?) async throws -> Int {
    let clock = ContinuousClock()
    var deleted = 0
    while !Task.isCancelled {
      let start = clock.now
      let step = try await pool.withConnection { connection in
        try RetentionRows.Step(
          await connection.query(RetentionRows.forget(table, months: months), timeout: Self.batchTimeout)[0])
      }
      deleted += step.deleted
      if step.isDone { break }
      // Deleting years of rows takes hours. The pause leaves half of the database's time to requests.
      try? await Task.sleep(for: clock.now - start)
    }
    if deleted > 0 {
      logger.notice("deleted old rows", metadata: ["table": "\(table.rawValue)", "rows": "\(deleted)"])
    }
    return deleted
  }
}

/// A table whose old rows are deleted.
enum RetainedTable: String, CaseIterable {
  case notifications
  case transactions
}

/// Calls of the functions that delete old rows. They run with the rights of the tables' owner.
enum RetentionRows {
  /// The result of one call.
  struct Step: Sendable {
    /// The number of deleted rows.
    var deleted: Int
    /// Whether no more rows are old enough now.
    var isDone: Bool

    init(_ row: Row) throws {
      deleted = try row.decode("deleted")
      isDone = try row.decode("is_done")
    }
  }

  /// Deletes a batch of rows that are older than this number of whole months.
  ///
  /// Notifications of apps that are not configured are deleted first, after 30 days, also if `months` is `nil`.
  static func forget(_ table: RetainedTable, months: Int?) -> Query {
    switch table {
    case .notifications:
      "SELECT deleted, is_done FROM receiptd_forget_notifications(\(months)::bigint::integer)"
    case .transactions:
      "SELECT deleted, is_done FROM receiptd_forget_transactions(\(months)::bigint::integer)"
    }
  }
}

extension Retention {
  /// The months to keep of a table.
  subscript(table: RetainedTable) -> Int? {
    switch table {
    case .notifications: notifications
    case .transactions: transactions
    }
  }
}
