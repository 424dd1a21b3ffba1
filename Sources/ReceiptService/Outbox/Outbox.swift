import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// What is written elsewhere: each lane is drained by itself, so that one that is down holds up nobody else. Any number
/// of servers may drain.
struct Outbox: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  let workers: [LaneWorker]
  let clock: ServiceClock
  let logger: Logger

  private static let pause = Duration.seconds(1)

  init(
    pool: PostgresPool, catalog: AppCatalog, senders: [OutboxLane: any OutboxSender],
    clock: ServiceClock, logger: Logger, metrics: ServiceMetrics
  ) {
    self.pool = pool
    self.catalog = catalog
    self.clock = clock
    self.logger = logger
    workers = catalog.apps.flatMap { app in
      app.outboxLanes.compactMap { lane in
        senders[lane].map {
          LaneWorker(
            lane: lane, app: app, sender: $0, pool: pool, clock: clock, logger: logger, metrics: metrics)
        }
      }
    }
  }

  /// Delivers until the task is cancelled.
  func runForever() async {
    while !Task.isCancelled {
      do {
        try await register()
        break
      } catch {
        logger.warning("the outbox cannot be read yet", metadata: ["reason": "\(error)"])
        try? await Task.sleep(for: Self.pause)
      }
    }
    await withTaskGroup { group in
      for worker in workers {
        group.addTask {
          while !Task.isCancelled {
            do {
              while try await worker.runOnce() > 0, !Task.isCancelled {}
            } catch {
              logger.warning("a delivery was cut short", metadata: ["reason": "\(error)"])
            }
            try? await Task.sleep(for: Self.pause * Double.random(in: 0.75...1.25))
          }
        }
      }
    }
  }

  /// Makes the lanes known. A container that is seen for the first time is told of everybody, since it is a copy; a
  /// webhook only of what happens from now on.
  func register() async throws {
    for app in catalog.apps {
      for lane in app.outboxLanes {
        try await pool.withTransaction { connection in
          let isNew = try await connection.query(LaneRows.register(lane, at: clock.now())).first != nil
          guard isNew, lane.destination == .cloudkit,
            let everyone = CustomerChanges.enqueueEveryone(of: app, for: lane, at: clock.now())
          else { return }
          _ = try await connection.query(everyone)
        }
      }
    }
  }

  /// Delivers what is due now, of all lanes at once.
  /// - Returns: how many were due.
  @discardableResult
  func run() async throws -> Int {
    try await withThrowingTaskGroup(of: Int.self) { group in
      for worker in workers {
        group.addTask {
          var total = 0
          while case let count = try await worker.runOnce(), count > 0 { total += count }
          return total
        }
      }
      return try await group.reduce(0, +)
    }
  }
}
