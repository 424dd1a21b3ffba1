import Configuration
import Foundation
import Postgres
import Subscriptions
import Work

/// A background job that makes subscriptions due for the expiry sweep after free access is switched off.
///
/// While free access is on, an app's own grace is suspended and its end is unknown, so such rows have no `next_change_at`.
/// The job runs for one minute after the switch, on every server: transactions that began before the switch may commit
/// rows after it. Repeated runs are harmless.
struct FreeAccessSweep: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let clock: ServiceClock

  /// Longer than any transaction of the ledger, and than the clocks of two servers may differ.
  private static let watchTime: TimeInterval = 60
  private static let batch = 2_000

  /// - Returns: the number of subscriptions made due.
  @discardableResult
  func run() async throws -> Int {
    var count = 0
    for period in try await pool.query(FreeAccessRows.unfollowed).map(FreeAccessRows.EndedPeriod.init) {
      guard let app = catalog[period.bundleID] else { continue }
      if let grace = app.grace {
        let reach = try await reach(of: grace, before: period.startsAt, in: app)
        while true {
          let due = try await pool.query(
            FreeAccessRows.makeDue(
              bundleID: app.bundleID, from: period.startsAt, until: period.endsAt, reach: reach,
              limit: Self.batch))
          count += due.count
          if due.count < Self.batch { break }
        }
      }
      let instant = clock.now()
      if instant.timeIntervalSince(period.endsAt) > Self.watchTime {
        _ = try await pool.query(FreeAccessRows.setFollowed(period.id, at: instant))
      }
    }
    return count
  }

  /// The longest time between the end of a paid period and the end of its grace: earlier periods of free access may have
  /// postponed the end too.
  private func reach(of grace: Allowance, before start: Date, in app: App) async throws -> TimeInterval {
    let freeAccess = try FreeAccessByApp(try await pool.query(CustomerRecordRows.freeAccessByApp))[app]
    return freeAccess.periods.reduce(grace.duration) { reach, period in
      guard let end = period.endsAt, end <= start else { return reach }
      return reach + end.timeIntervalSince(period.startsAt)
    }
  }
}
