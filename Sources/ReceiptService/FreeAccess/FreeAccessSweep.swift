import FoundationEssentials
import Postgres
import Subscriptions

/// After free access is switched off: has every subscription judged again whose own grace stood still meanwhile.
///
/// Its row says that the grace has no end, because nobody could know it. Any number of servers may mark, again and
/// again, until a minute has passed: what was being written while the switch was turned may still have been judged
/// as before.
struct FreeAccessSweep: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let clock: ServiceClock

  /// Longer than a transaction of the ledger may take, and than clocks of servers may differ.
  private static let watch: TimeInterval = 60
  private static let batch = 2_000

  /// - Returns: how many subscriptions the expiry sweep is to judge again.
  @discardableResult
  func run() async throws -> Int {
    var count = 0
    for row in try await pool.query(FreeAccessRows.unfollowed) {
      guard let app = catalog[try row.decode(1)] else { continue }
      let start: Date = try row.decode(2)
      let end: Date = try row.decode(3)
      if let grace = app.grace {
        let reach = try await reach(of: grace, before: start, in: app)
        while true {
          let marked = try await pool.query(
            FreeAccessRows.markStoodStill(
              bundleID: app.bundleID, from: start, until: end, reach: reach, limit: Self.batch))
          count += marked.count
          if marked.count < Self.batch { break }
        }
      }
      let instant = clock.now()
      if instant.timeIntervalSince(end) > Self.watch {
        _ = try await pool.query(FreeAccessRows.setFollowed(try row.decode(0), at: instant))
      }
    }
    return count
  }

  /// Earlier free times may have put off the end of a grace too.
  private func reach(of grace: Allowance, before start: Date, in app: App) async throws -> TimeInterval {
    let freeTime = try HoldingsRows.decodeFreeTimes(try await pool.query(HoldingsRows.freeTimes))[app]
    return freeTime.spells.reduce(grace.duration) { reach, spell in
      guard let end = spell.endsAt, end <= start else { return reach }
      return reach + end.timeIntervalSince(spell.startsAt)
    }
  }
}
