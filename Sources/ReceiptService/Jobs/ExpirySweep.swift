import Configuration
import Customers
import Foundation
import Ledger
import Logging
import Postgres
import Subscriptions
import Work

/// Updates the rows and profiles whose status changes with time.
///
/// Responses and support views compute the status from the phases of a row, so they are right at every instant. The
/// columns `status` and `store_status` and the table `user_preferences` must be written when a phase ends. Any number
/// of servers may sweep: each locks the purchase before it computes the row, so the second one writes the same row.
///
/// A server whose clock is ahead writes a row or a profile too early. The sweep of another server finds it by its dates
/// and writes it again. Each run first compares the clock with the database's (``ClockCorrection``); otherwise two
/// servers would overwrite each other's rows again and again.
struct ExpirySweep: Sendable {
  let pool: PostgresPool
  let ledger: LedgerWriter
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger
  let grants: GrantSweep
  let freeAccess: FreeAccessSweep
  let clockCorrection: ClockCorrection

  private static let interval = Duration.seconds(20)
  private static let batch = 256

  /// The sweeps of subscriptions, grants and free access.
  var jobs: [BackgroundJob] {
    [
      job("free_access") { try await freeAccess.run() },
      job("subscriptions") { try await run() },
      job("grants") { try await grants.run() },
    ]
  }

  private func job(_ name: String, _ sweep: @escaping @Sendable () async throws -> Int) -> BackgroundJob {
    BackgroundJob("sweep of \(name)", every: Self.interval, countedAs: name) {
      await clockCorrection.measure(pool, logger)
      return try await sweep()
    }
  }

  /// Updates every purchase whose status has changed with time.
  /// - Returns: the number of purchases that were due.
  func run() async throws -> Int {
    var count = 0
    // The purchases that are still due after an update. They are left out, so that the loop ends.
    var stuck: Set<String> = []
    var last: Set<String> = []
    while true {
      let instant = clock.now()
      let rows = try await pool.query(
        SubscriptionRows.due(
          in: catalog.apps.map(\.bundleID), except: stuck, at: instant, limit: Self.batch))
      let due = try rows.map {
        (
          id: try $0.decode("original_transaction_id", as: String.self),
          bundleID: try $0.decode("bundle_id", as: String.self)
        )
      }
      guard !due.isEmpty else { return count }
      stuck.formUnion(due.lazy.map(\.id).filter(last.contains))
      let fresh = due.filter { !stuck.contains($0.id) }
      last = Set(fresh.map(\.id))
      count += fresh.count
      let failures = await withTaskGroup(of: (any Error)?.self) { group in
        for purchase in fresh {
          let entry = LedgerEntry(
            app: catalog[purchase.bundleID], originalTransactionID: purchase.id, because: .time,
            instant: instant)
          group.addTask {
            do {
              _ = try await ledger.record(entry)
              return nil
            } catch { return error }
          }
        }
        return await group.reduce(into: []) { failures, failure in failures += [failure].compactMap(\.self) }
      }
      // A purchase that failed, for example because its row is locked, is due again in the next run. The sweep
      // continues unless all purchases failed.
      if let failure = failures.first, failures.count == fresh.count { throw failure }
    }
  }
}

/// The query for the purchases that the expiry sweep updates.
extension SubscriptionRows {
  /// The purchases of these apps whose status has changed with time since the row was written, the longest overdue
  /// first.
  ///
  /// Also those whose status begins in the future: a server whose clock is ahead has written them.
  /// - Parameter seen: the purchases of this run that were not updated, which are left out.
  static func due(
    in bundleIDs: [String], except seen: Set<String>, at instant: Date, limit: Int
  ) -> Query {
    // The clocks of two servers may differ by less than this. Without the margin each would rewrite the other's rows.
    let ahead = instant.addingTimeInterval(ClockCorrection.tolerance)
    return """
      (SELECT original_transaction_id, bundle_id FROM subscriptions
       WHERE next_change_at <= \(instant) AND bundle_id = ANY(\(bundleIDs))
         AND original_transaction_id <> ALL(\(seen.sorted()))
       ORDER BY next_change_at LIMIT \(limit))
      UNION ALL
      (SELECT original_transaction_id, bundle_id FROM subscriptions
       WHERE status_since > \(ahead) AND bundle_id = ANY(\(bundleIDs))
         AND (next_change_at IS NULL OR next_change_at > \(instant))
         AND original_transaction_id <> ALL(\(seen.sorted()))
       ORDER BY status_since LIMIT \(limit))
      """
  }
}
