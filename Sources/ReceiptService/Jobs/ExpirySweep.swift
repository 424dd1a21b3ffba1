import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// Brings rows and profiles up to date with the time.
///
/// Answers and support views read the phases of a row and are right at every instant by themselves. What
/// others read (the columns `status` and `store_status`, `user_preferences`) has to be written anew
/// when a phase ends. Any number of servers may sweep: a purchase is judged again under its lock, so a
/// second judgement writes the same row.
///
/// A server whose clock is ahead writes a row or a profile too early. The sweep of another server finds it by its dates and
/// writes it again; it does not matter whether a job or a request wrote it. Before each turn the clock is compared
/// with the database's (``ClockCorrection``), or two servers would write such a row by turns.
struct ExpirySweep: Sendable {
  let pool: PostgresPool
  let ledger: LedgerWriter
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger
  let grants: GrantSweep
  let freeAccess: FreeAccessSweep
  let metrics: ServiceMetrics
  let clockCorrection: ClockCorrection

  private static let pause = Duration.seconds(20)
  private static let batch = 256

  /// Sweeps until the task is cancelled. A database that is away is tried again at the next turn.
  func runForever() async {
    while !Task.isCancelled {
      await clockCorrection.measure(pool, logger)
      // One that cannot do its work does not keep the others from theirs.
      await turn("free_access") { try await freeAccess.run() }
      await turn("subscriptions") { try await run() }
      await turn("grants") { try await grants.run() }
      // Jittered, so that servers that started together do not sweep together.
      try? await Task.sleep(for: Self.pause * Double.random(in: 0.75...1.25))
    }
  }

  private func turn(_ what: String, _ sweep: () async throws -> Int) async {
    do {
      let count = try await sweep()
      metrics.jobs.swept(what, rows: count)
      if count > 0 { logger.info("swept", metadata: ["\(what)": "\(count)"]) }
    } catch {
      metrics.jobs.swept(what, rows: nil)
      logger.warning("a sweep was cut short", metadata: ["of": "\(what)", "reason": "\(error)"])
    }
  }

  /// Judges everything again whose status has changed by itself.
  /// - Returns: how many purchases were due.
  func run() async throws -> Int {
    var count = 0
    // Those that are due still after they were judged: they must not stand in the way of the others.
    var stuck: Set<String> = []
    var last: Set<String> = []
    while true {
      let instant = clock.now()
      let rows = try await pool.query(
        SubscriptionRows.due(
          in: catalog.apps.map(\.bundleID), except: stuck, at: instant, limit: Self.batch))
      let due = try rows.map {
        (id: try $0.decode(0, as: String.self), bundleID: try $0.decode(1, as: String.self))
      }
      guard !due.isEmpty else { return count }
      stuck.formUnion(due.lazy.map(\.id).filter(last.contains))
      let fresh = due.filter { !stuck.contains($0.id) }
      last = Set(fresh.map(\.id))
      count += fresh.count
      let failures = await withTaskGroup(of: (any Error)?.self) { group in
        for purchase in fresh {
          let entry = LedgerEntry(
            app: catalog[purchase.bundleID], originalTransactionID: purchase.id, instant: instant)
          group.addTask {
            do {
              _ = try await ledger.record(entry)
              return nil
            } catch { return error }
          }
        }
        return await group.reduce(into: []) { failures, failure in failures += [failure].compactMap(\.self) }
      }
      // A purchase that is not taken now, such as one whose row is locked, has another turn. The others go on, unless
      // the database takes none.
      if let failure = failures.first, failures.count == fresh.count { throw failure }
    }
  }
}
