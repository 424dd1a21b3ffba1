import Configuration
import Customers
import Foundation
import Ledger
import Logging
import Postgres
import Requests
import Subscriptions
import Work

/// A background job that writes down the lifecycle events that time causes and no change of a status does: reminders,
/// ends of trials, renewals that never came, and paused devices.
///
/// Any number of servers may run it: the id of an event is made of its cause, so the second server adds no row. The
/// clock follows the database's (``ClockCorrection``).
struct EventSweep: Sendable {
  let pool: PostgresPool
  let ledger: LedgerWriter
  let catalog: AppCatalog
  let clock: ServiceClock
  let logger: Logger
  let clockCorrection: ClockCorrection

  init(
    pool: PostgresPool, ledger: LedgerWriter, catalog: AppCatalog, clock: ServiceClock, logger: Logger,
    clockCorrection: ClockCorrection
  ) {
    self.pool = pool
    self.ledger = ledger
    self.catalog = catalog
    self.clock = clock
    self.logger = logger
    self.clockCorrection = clockCorrection
  }

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
    var failure: (any Error)?
    func part(_ sweep: nonisolated(nonsending) () async throws -> Int) async throws {
      do {
        count += try await sweep()
      } catch  where !isDatabaseUnavailable(error) && !Task.isCancelled {
        failure = failure ?? error
      }
    }
    for app in catalog.apps where app.hasLifecycleEvents {
      try await part { try await sweepPurchases(of: app) }
      if app.customer == .device {
        try await part { try await sweepTrials(of: app, EventSweepRows.trials) }
        if app.reminders.graceDaily {
          try await part { try await sweepTrials(of: app, EventSweepRows.trialGraces) }
        }
      }
      if app.limitsDevices { try await part { try await checkDevices(of: app) } }
    }
    if let failure { throw failure }
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
        _ = try await ledger.record(
          LedgerEntry(app: app, originalTransactionID: id, because: .time, instant: instant))
      } catch {
        failures += 1
        failure = error
      }
    }
    if let failure, failures == due.count { throw failure }
    return due.count
  }

  private func sweepTrials(of app: App, _ find: EventSweepRows.FindTrials) async throws -> Int {
    let instant = clock.now()
    let freeAccess = try FreeAccessByApp(await pool.query(FreeAccessByApp.select))[app]
    let pause = freeAccess.periods.reduce(0) { $0 + ($1.endsAt ?? instant).timeIntervalSince($1.startsAt) }
    var place = EventSweepRows.TrialPlace.start
    var count = 0
    while true {
      let due = try await pool.query(
        find(app, pause, place, instant, Self.batch)
      ).map(DueTrial.init)
      guard let last = due.last else { return count }
      place = EventSweepRows.TrialPlace(endsAt: last.trial.endsAt, id: last.id)
      count += try await write(due, of: app, at: instant)
    }
  }

  /// Writes the events of all trials at once. Where that fails for another reason than an outage, each trial is taken
  /// alone, so that a customer whose records cannot be read stops no others.
  /// - Returns: the number of events.
  private func write(_ due: [DueTrial], of app: App, at instant: Date) async throws -> Int {
    do {
      return try await writeTogether(due, of: app, at: instant)
    } catch  where !isDatabaseUnavailable(error) && !Task.isCancelled {
      var count = 0
      for trial in due {
        do {
          count += try await writeTogether([trial], of: app, at: instant)
        } catch  where !isDatabaseUnavailable(error) && !Task.isCancelled {
          logger.error(
            "the events of a trial cannot be written",
            metadata: ["trial": "\(trial.id.uuidString.lowercased())", "reason": "\(error)"])
        }
      }
      return count
    }
  }

  /// Writes the events of the trials whose devices are not locked, by an erasure for example. The next run has the
  /// others.
  func writeTogether(_ due: [DueTrial], of app: App, at instant: Date) async throws -> Int {
    try await pool.withTransaction { connection in
      let free = try await connection.lockFreeDevices(Set(due.map(\.deviceID)))
      // A device may have been erased since its trial was read.
      var stored: [UUID: String] = [:]
      for row in try await connection.query(EventSweepRows.devices(of: due.map(\.id))) {
        stored[try row.decode("id")] = try row.decode("device_id", as: String.self)
      }
      let due = due.filter { free.contains($0.deviceID) && stored[$0.id] == $0.deviceID }
      let records = try await connection.customerRecords(devices: due.map(\.deviceID))
      let events = due.flatMap { trial in
        trial.dueEvents(
          in: app, records.customerRecords(of: .device(trial.deviceID), in: app, at: instant), at: instant)
      }
      guard let query = LifecycleEventRows.insert(events, in: catalog, at: instant) else { return 0 }
      _ = try await connection.query(query)
      return events.count
    }
  }

  // MARK: Paused devices

  /// Looks which paired devices are paused since an event that may have lowered the customer's limit.
  private func checkDevices(of app: App) async throws -> Int {
    do {
      return try await checkDevices(of: app, only: nil)
    } catch  where !isDatabaseUnavailable(error) && !Task.isCancelled {
      // A parent that cannot be read stops no others.
      var count = 0
      for row in try await pool.query(EventSweepRows.unchecked(bundleID: app.bundleID, limit: Self.batch)) {
        let cause: UUID = try row.decode("id")
        do {
          count += try await checkDevices(of: app, only: cause)
        } catch  where !isDatabaseUnavailable(error) && !Task.isCancelled {
          logger.error(
            "a parent's devices cannot be checked",
            metadata: ["event": "\(cause.uuidString.lowercased())", "reason": "\(error)"])
        }
      }
      return count
    }
  }

  /// - Parameter cause: the only event to look at; `nil` for all.
  private func checkDevices(of app: App, only cause: UUID?) async throws -> Int {
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      let causes = try await connection.query(
        EventSweepRows.unchecked(bundleID: app.bundleID, limit: Self.batch)
      ).map(PauseCause.init).filter { cause == nil || $0.id == cause }
      guard !causes.isEmpty else { return 0 }
      let parents = Set(causes.compactMap(\.deviceID)).sorted()
      var households = try await connection.households(of: parents, in: app, at: instant)
      let named = causes.compactMap { $0.event(in: app, households) }.reduce(into: Set<String>()) {
        $0.formUnion($1.devices)
      }
      var free: Set<String> = []
      if !named.isEmpty {
        free = try await connection.lockFreeDevices(named)
        // A device may have been erased since it was read.
        households = try await connection.households(of: parents, in: app, at: instant)
      }
      let decided = causes.map { (id: $0.id, event: $0.event(in: app, households)) }
        // The next run has those that name a device that is locked, by an erasure for example.
        .filter { free.isSuperset(of: $0.event?.devices ?? []) }
      let writes =
        [LifecycleEventRows.insert(decided.compactMap(\.event), in: catalog, at: instant)].compactMap(\.self)
        + [EventSweepRows.markChecked(decided.map(\.id))]
      _ = try await connection.pipeline(writes)
      return causes.count
    }
  }
}

/// A device's trial, and the events that time causes.
package struct DueTrial: Sendable {
  /// The id in `trials`. Each device that continues a trial has a row of its own.
  package var id: UUID
  package var deviceID: String
  /// Apple's environment of the app transaction that started it.
  package var environment: String
  package var trial: Trial

  package init(id: UUID, deviceID: String, environment: String, trial: Trial) {
    self.id = id
    self.deviceID = deviceID
    self.environment = environment
    self.trial = trial
  }

  /// - Parameter row: of ``EventSweepRows/trials(of:pause:after:at:limit:)``.
  package init(_ row: Row) throws {
    id = try row.decode("id")
    deviceID = try row.decode("device_id")
    environment = try row.decode("environment")
    trial = try Trial(row)
  }

  /// The event of its start.
  package func start(in app: App) -> LifecycleEvent {
    event(.trialStarted, in: app, occasion: [], at: trial.startedAt, endsAt: trial.endsAt)
  }

  /// The events that are due at `instant`: a reminder, unless the customer has bought something, or the end and the
  /// app's own grace.
  func dueEvents(
    in app: App, _ customerRecords: CustomerRecords, at instant: Date
  ) -> [LifecycleEvent] {
    // During free access the end is unknown.
    guard let end = trial.end(honoring: customerRecords.freeAccess) else { return [] }
    let bought = customerRecords.subscriptions.filter { app.counts($0, for: .device(deviceID), at: instant) }
    if end <= instant {
      var ended = event(.trialEnded, in: app, occasion: [end.occasion], at: end, endsAt: end, bought: bought)
      ended.checksDevices = app.limitsDevices
      return [ended] + graceEvents(in: app, customerRecords, after: end, bought, at: instant)
    }
    let reminderAt = max(trial.startedAt, end - TimeInterval(app.reminders.trialEndingDays) * 86_400)
    guard reminderAt <= instant, bought.isEmpty else { return [] }
    return [event(.trialEnding, in: app, occasion: [end.occasion], at: reminderAt, endsAt: end)]
  }

  /// The beginning of the app's own grace after the trial, and the reminder of its latest whole day.
  private func graceEvents(
    in app: App, _ customerRecords: CustomerRecords, after end: Date, _ bought: [Subscription],
    at instant: Date
  ) -> [LifecycleEvent] {
    guard let grace = app.grace, bought.isEmpty else { return [] }
    let accessEnd = customerRecords.freeAccess.end(of: grace.duration, from: end)
    let details = EventDetails.Grace(source: "app", endsAt: accessEnd)
    var events = [
      event(.graceStarted, in: app, occasion: [end.occasion], at: end, endsAt: end, grace: details)
    ]
    if app.reminders.graceDaily, let (day, at) = GraceDay.latest(after: end, until: accessEnd, at: instant) {
      events.append(
        event(
          .graceReminder, in: app, occasion: [end.occasion, "\(day)"], at: at, endsAt: end, grace: details))
    }
    return events
  }

  /// - Parameter bought: at the end of the trial, the purchases of the device that count.
  private func event(
    _ type: LifecycleEventType, in app: App, occasion: [String], at instant: Date, endsAt: Date,
    bought: [Subscription]? = nil, grace: EventDetails.Grace? = nil
  ) -> LifecycleEvent {
    let firstPurchase = bought?.map { $0.current.originalPurchaseDate ?? $0.current.purchaseDate }.min()
    return LifecycleEvent(
      type: type, bundleID: app.bundleID, environment: environment, subject: .trial(id), occasion: occasion,
      customer: .device(deviceID), periodEnd: endsAt, occurredAt: instant,
      data: EventDetails(
        grace: grace,
        trial: EventDetails.TrialPeriod(
          startedAt: trial.startedAt, endsAt: endsAt, isConverted: bought.map { !$0.isEmpty },
          daysIntoTrial: bought.map { _ in trial.days(until: firstPurchase ?? endsAt) })
      ).bytes)
  }
}

extension PostgresConnection {
  /// Locks those of the devices that no other transaction has locked. An erasure holds the lock of its customer: what
  /// is written under the lock, the erasure finds.
  fileprivate nonisolated(nonsending) func lockFreeDevices(_ devices: Set<String>) async throws -> Set<String>
  {
    let names = Set(devices.map { Customer.device($0).lockName })
    let free = Set(
      try await query(AdvisoryLock.tryAcquire(.customer, names)).map {
        try $0.decode("name", as: String.self)
      })
    return devices.filter { free.contains(Customer.device($0).lockName) }
  }
}

extension LifecycleEvent {
  /// The devices that the event names.
  fileprivate var devices: [String] { [customer?.deviceID].compactMap(\.self) + (children ?? []) }
}

extension Trial {
  /// The whole days from the start to an instant; 0 for one before it.
  fileprivate func days(until instant: Date) -> Int {
    max(0, Int(instant.timeIntervalSince(startedAt) / 86_400))
  }
}

/// A day of a grace period, counted from its start.
enum GraceDay {
  /// The latest whole day that has passed, from 1, and when it had; nil within the first day and after the end.
  static func latest(after start: Date, until end: Date?, at instant: Date) -> (day: Int, at: Date)? {
    let day = Int(instant.timeIntervalSince(start) / 86_400)
    let at = start + TimeInterval(day) * 86_400
    guard day > 0, end.map({ at < $0 && instant < $0 }) ?? true else { return nil }
    return (day, at)
  }
}

/// An event that may have lowered the number of devices that a customer may pair.
struct PauseCause: Sendable {
  var id: UUID
  var environment: String
  var deviceID: String?
  var subject: LifecycleEvent.Subject
  var occurredAt: Date

  /// - Parameter row: of ``EventSweepRows/unchecked(bundleID:limit:)``.
  init(_ row: Row) throws {
    id = try row.decode("id")
    environment = try row.decode("environment")
    deviceID = try row.decode("device_id")
    occurredAt = try row.decode("occurred_at")
    subject =
      if let trial = try row.decode("trial_id", as: UUID?.self) {
        .trial(trial)
      } else {
        .purchase(
          originalTransactionID: try row.decode("original_transaction_id"),
          transactionID: try row.decode("transaction_id"))
      }
  }

  func event(in app: App, _ households: [String: Household]) -> LifecycleEvent? {
    deviceID.flatMap { households[$0] }.flatMap { event(in: app, $0) }
  }

  /// The event about the devices beyond the customer's limit; `nil` if there are none.
  func event(in app: App, _ household: Household) -> LifecycleEvent? {
    guard let deviceID, let limit = household.limit else { return nil }
    let paused = household.children.filter { $0.place >= limit }
    guard !paused.isEmpty else { return nil }
    let customer = Customer.device(deviceID)
    return LifecycleEvent(
      type: .pausedDevices, bundleID: app.bundleID, environment: environment, subject: subject,
      occasion: [id.uuidString.lowercased()], customer: customer,
      children: paused.map(\.childDeviceID), occurredAt: occurredAt,
      data: EventDetails(cause: id, limit: limit).bytes)
  }
}
