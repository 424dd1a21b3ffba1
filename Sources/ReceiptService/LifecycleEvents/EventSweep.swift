import Configuration
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

/// A background job that writes down the lifecycle events that time causes and no change of a status does: reminders, ends
/// of trials, renewals that never came, and paused devices.
///
/// Any number of servers may run it: the id of an event is made of its cause, so the second server adds no row. The clock
/// follows the database's (``ClockCorrection``).
struct EventSweep: Sendable {
  let pool: PostgresPool
  let ledger: LedgerWriter
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger
  let clockCorrection: ClockCorrection

  private static let batch = 256

  var job: BackgroundJob {
    BackgroundJob("sweep of lifecycle events", every: .seconds(20), countedAs: "lifecycle_events") {
      await clockCorrection.measure(pool, logger)
      return try await run()
    }
  }

  /// Writes down all events that are due.
  /// - Returns: the number of rows that were due.
  @discardableResult
  func run() async throws -> Int {
    var count = 0
    for app in catalog.apps where app.hasLifecycleEvents {
      count += try await sweepPurchases(of: app)
      if app.customer == .device { count += try await sweepTrials(of: app) }
      if app.limitsDevices { count += try await checkDevices(of: app) }
    }
    return count
  }

  /// The ledger decides the events of each purchase, under its lock.
  private func sweepPurchases(of app: App) async throws -> Int {
    let instant = clock.now()
    let due = try await pool.query(EventSweepRows.purchases(of: app, at: instant, limit: Self.batch))
    var failure: (any Error)?
    var failures = 0
    for row in due {
      let id = try row.decode("original_transaction_id", as: String.self)
      do {
        _ = try await ledger.record(LedgerEntry(app: app, originalTransactionID: id, instant: instant))
      } catch {
        failures += 1
        failure = error
      }
    }
    if let failure, failures == due.count { throw failure }
    return due.count
  }

  private func sweepTrials(of app: App) async throws -> Int {
    let instant = clock.now()
    let freeAccess = try FreeAccessByApp(await pool.query(CustomerRecordRows.freeAccessByApp))[app]
    let pause = freeAccess.periods.reduce(0) { $0 + ($1.endsAt ?? instant).timeIntervalSince($1.startsAt) }
    var place = EventSweepRows.TrialPlace.start
    var count = 0
    while true {
      let due = try await pool.query(
        EventSweepRows.trials(of: app, pause: pause, after: place, at: instant, limit: Self.batch)
      ).map(DueTrial.init)
      guard let last = due.last else { return count }
      place = EventSweepRows.TrialPlace(endsAt: last.trial.endsAt, id: last.id)
      count += try await write(due, of: app, at: instant)
    }
  }

  /// - Returns: the number of events.
  private func write(_ due: [DueTrial], of app: App, at instant: Date) async throws -> Int {
    let records = try await pool.customerRecords(devices: due.map(\.deviceID))
    let events = due.compactMap { trial in
      trial.dueEvent(
        in: app, records.customerRecords(of: .device(trial.deviceID), in: app, at: instant), at: instant)
    }
    guard let query = LifecycleEventRows.insert(events, in: catalog, at: instant) else { return 0 }
    _ = try await pool.query(query)
    return events.count
  }

  // MARK: Paused devices

  /// Looks which paired devices are paused since an event that may have lowered the customer's limit.
  private func checkDevices(of app: App) async throws -> Int {
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let causes = try await connection.query(
        EventSweepRows.unchecked(bundleID: app.bundleID, limit: Self.batch)
      ).map(PauseCause.init)
      guard !causes.isEmpty else { return 0 }
      let devices = causes.compactMap(\.deviceID)
      let answers = try await connection.pipeline(
        CustomerRecordRows.select(users: [], devices: devices)
          + devices.map { DeviceRows.select(bundleID: app.bundleID, deviceID: $0) })
      let records = try CustomerRecordRows.decode(answers.prefix(CustomerRecordRows.count))
      var paired: [String: [PairedDevice]] = [:]
      for (device, rows) in zip(devices, answers.dropFirst(CustomerRecordRows.count)) {
        paired[device] = try rows.map(PairedDevice.init)
      }
      let events = causes.compactMap { cause in
        cause.event(in: app, records, paired: cause.deviceID.flatMap { paired[$0] } ?? [], at: instant)
      }
      let writes =
        [LifecycleEventRows.insert(events, in: catalog, at: instant)].compactMap(\.self)
        + [EventSweepRows.markChecked(causes.map(\.id))]
      _ = try await connection.pipeline(writes)
      return causes.count
    }
  }
}
