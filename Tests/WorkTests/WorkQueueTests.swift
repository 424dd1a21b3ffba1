import Foundation
import Logging
import Platform
import Postgres
import PrometheusText
import Synchronization
import TestDatabase
import Testing

@testable import Work

/// The queue over a table: who gets a row, and what becomes of it.
@Suite struct WorkQueueTests {
  // MARK: Claim

  @Test func `a claim takes the earliest due rows, which no other server gets before the lease ends`()
    async throws
  {
    try await Jobs.with { jobs in
      try await jobs.add([3: -1, 1: -2, 2: -3, 4: 5])
      let lease = jobs.lease()
      #expect(try await jobs.claim(lease, limit: 2) == [1, 2])
      #expect(try await jobs.claim(jobs.lease()) == [3])
      #expect(try await jobs.claim(jobs.lease()) == [])
      jobs.advance(seconds: Jobs.time)
      #expect(try await jobs.claim(jobs.lease()) == [1, 2, 3, 4])
    }
  }

  @Test func `a row that another transaction has locked is left out`() async throws {
    try await Jobs.with { jobs in
      try await jobs.add([1: -2, 2: -1])
      try await jobs.pool.withTransaction { connection in
        _ = try await connection.query("SELECT FROM jobs WHERE id = 1 FOR UPDATE")
        #expect(try await jobs.claim(jobs.lease()) == [2])
      }
      #expect(try await jobs.claim(jobs.lease()) == [1])
    }
  }

  @Test func `rows are taken in the order of their turns, and others not at all`() async throws {
    try await Jobs.with { jobs in
      try await jobs.add([1: -3, 2: -2, 3: -1])
      let claim = Jobs.table.claim(
        jobs.lease(), inTurns: "(VALUES (3::bigint, 1), (2, 2)) AS turns (turn_key, turn)", limit: "1",
        returning: "id")
      #expect(try await jobs.pool.query(claim).map { try $0.decode("id", as: Int64.self) } == [3])
      #expect(try await jobs.pool.query(claim).map { try $0.decode("id", as: Int64.self) } == [2])
      #expect(try await jobs.pool.query(claim).isEmpty)
    }
  }

  @Test func `a lease in columns of its own leaves the due time, and is given back by its holder alone`()
    async throws
  {
    try await Jobs.with { jobs in
      let table = WorkTable(
        "jobs", key: "id", isOpen: "ended_at IS NULL", lease: .columns(holder: "holder", end: "held_until"))
      try await jobs.add([1: -1])
      let (first, second) = (jobs.lease(), jobs.lease())
      func claim(_ lease: WorkLease) async throws -> Int {
        try await jobs.pool.query(table.claim(lease, limit: "9", returning: "id")).count
      }
      #expect(try await claim(first) == 1)
      #expect(try await jobs.row(1).due == -1)
      #expect(try await claim(second) == 0)
      #expect(try await jobs.pool.query(table.giveBack(Int64(1), of: second)).affected == 0)
      #expect(try await jobs.pool.query(table.giveBack(Int64(1), of: first)).affected == 1)
      #expect(try await claim(second) == 1)
      jobs.advance(seconds: Jobs.time)
      #expect(try await claim(jobs.lease()) == 1)
    }
  }

  @Test(arguments: [false, true])
  func `a claim sorts no other rows and reads no whole table, also where many rows are due at one instant`(
    isInTurns: Bool
  ) async throws {
    try await Jobs.with { jobs in
      _ = try await jobs.pool.query(
        "INSERT INTO jobs (id, next_attempt_at) SELECT n, \(jobs.start) FROM generate_series(1, 20000) AS n")
      _ = try await jobs.pool.query("CREATE INDEX ON jobs (next_attempt_at) WHERE ended_at IS NULL")
      _ = try await jobs.pool.query("ANALYZE jobs")
      let turns: Query = "(SELECT id AS turn_key, id % 7 AS turn FROM jobs WHERE id < 100 LIMIT 64) AS turns"
      let claim = Jobs.table.claim(
        jobs.lease(), inTurns: isInTurns ? turns : nil, limit: "(SELECT 16)", returning: "id")
      let plan = try await jobs.pool.query("EXPLAIN \(claim)").map { try $0.decode(0, as: String.self) }
      #expect(!plan.contains { $0.contains("Seq Scan") }, "\(plan.joined(separator: "\n"))")
      if !isInTurns { #expect(!plan.contains { $0.contains("Sort") }, "\(plan.joined(separator: "\n"))") }
    }
  }

  @Test func `two servers work on each row once`() async throws {
    try await Jobs.with { jobs in
      try await jobs.add(Dictionary(uniqueKeysWithValues: (1...200).map { ($0, -1) }))
      try await withThrowingTaskGroup { group in
        for _ in 0..<2 {
          group.addTask {
            try await jobs.work { job, _ in
              WorkOutcome(
                .done, ["UPDATE jobs SET ended_at = now(), attempts = attempts + 1 WHERE id = \(job)"])
            }
          }
        }
        try await group.waitForAll()
      }
      let once = try await jobs.pool.query("SELECT FROM jobs WHERE ended_at IS NOT NULL AND attempts = 1")
      #expect(once.count == 200)
    }
  }

  // MARK: Settle

  @Test
  func `a row that is put off counts an attempt, has the reason, and waits no longer than its deadline`()
    async throws
  {
    try await Jobs.with { jobs in
      try await jobs.add([1: -1, 2: -1, 3: -1])
      _ = try await jobs.pool.query("UPDATE jobs SET deadline = \(jobs.start + 50) WHERE id = 2")
      try await jobs.work { job, lease in
        WorkOutcome(
          job == 3 ? .waits : .retry,
          [
            Jobs.table.retry(
              job, of: lease, at: jobs.start + 90, because: job == 3 ? nil : "no answer", isAttempt: job != 3)
          ])
      }
      #expect(try await jobs.row(1) == Jobs.Job(due: 90, attempts: 1, error: "no answer"))
      #expect(try await jobs.row(2) == Jobs.Job(due: 50, attempts: 1, error: "no answer"))
      #expect(try await jobs.row(3) == Jobs.Job(due: 90, attempts: 0, error: nil))
    }
  }

  @Test func `a row that is queued again during an attempt stays due`() async throws {
    try await Jobs.with { jobs in
      try await jobs.add([1: -1])
      try await jobs.work { job, lease in
        _ = try await jobs.pool.query(Jobs.table.requeue(job, at: jobs.start))
        return WorkOutcome(
          .retry,
          [Jobs.table.retry(job, of: lease, at: jobs.start + 90, because: "no answer", isAttempt: true)])
      }
      #expect(try await jobs.row(1) == Jobs.Job(due: 0, attempts: 1, error: "no answer"))
    }
  }

  @Test func `a server that lost its lease moves neither the row nor the lease of another`() async throws {
    try await Jobs.with { jobs in
      try await jobs.add([1: -1])
      let late = jobs.lease()
      _ = try await jobs.claim(late)
      jobs.advance(seconds: Jobs.time + 1)
      _ = try await jobs.claim(jobs.lease())
      let held = try await jobs.row(1).due
      let retry = Jobs.table.retry(Int64(1), of: late, at: jobs.start, because: "late", isAttempt: false)
      _ = try await jobs.pool.query(retry)
      #expect(try await jobs.pool.query(Jobs.table.giveBack(Int64(1), of: late)).affected == 0)
      #expect(try await jobs.row(1).due == held)
    }
  }

  @Test func `an ended row is due again once it is requeued, and as if it were new`() async throws {
    try await Jobs.with { jobs in
      try await jobs.add([1: -1])
      _ = try await jobs.pool.query("UPDATE jobs SET attempts = 7, last_error = 'gone', ended_at = now()")
      #expect(try await jobs.claim(jobs.lease()) == [])
      #expect(
        try await jobs.pool.query(
          Jobs.table.retry(Int64(1), of: nil, at: jobs.start, because: nil, isAttempt: true)
        ).affected == 0)
      _ = try await jobs.pool.query(
        Jobs.table.requeue(Int64(1), at: jobs.start, setting: ", ended_at = NULL"))
      #expect(try await jobs.row(1) == Jobs.Job(due: 0, attempts: 0, error: nil))
      #expect(try await jobs.claim(jobs.lease()) == [1])
    }
  }

  // MARK: Failures

  @Test func `an attempt that fails does not stop the others, and its row waits for the end of the lease`()
    async throws
  {
    try await Jobs.with { jobs in
      try await jobs.add([1: -1, 2: -1, 3: -1])
      let count = try await jobs.work { job, _ in
        if job == 2 { throw Failure.ofOne }
        return WorkOutcome(.done, [Jobs.end(job)])
      }
      #expect(count == 3)
      #expect(try await jobs.open() == [2])
      #expect(try await jobs.row(2).due == Jobs.time)
    }
  }

  @Test func `a row that cannot be read does not stop the others`() async throws {
    try await Jobs.with { jobs in
      try await jobs.add([1: -1, Jobs.unreadable: -1, 2: -1])
      #expect(try await jobs.work { job, _ in WorkOutcome(.done, [Jobs.end(job)]) } == 3)
      #expect(try await jobs.open() == [Jobs.unreadable])
    }
  }

  @Test func `an outage ends the run, and its rows are due at once while settled ones stay settled`()
    async throws
  {
    try await Jobs.with { jobs in
      try await jobs.add([1: -1, 2: -1, 3: -1])
      await #expect(throws: Failure.ofAll) {
        try await jobs.work { job, _ in
          if job != 2 { throw Failure.ofAll }
          return WorkOutcome(.done, [Jobs.end(job)])
        }
      }
      #expect(try await jobs.open() == [1, 3])
      #expect(try await jobs.claim(jobs.lease()) == [1, 3])
      #expect(jobs.counted("given_back") == 2)
      #expect(jobs.counted("done") == 1)
    }
  }

  @Test func `a server that stops gives back what it cut off, and settles what has ended`() async throws {
    try await Jobs.with { jobs in
      try await jobs.add([1: -1, 2: -1])
      let (began, beginning) = AsyncStream<Void>.makeStream()
      let run = Task {
        try await jobs.work { job, _ in
          beginning.yield()
          // Ends when the task is cancelled.
          for await _ in AsyncStream<Void>.makeStream().stream {}
          if job == 1 { try Task.checkCancellation() }
          return WorkOutcome(.done, [Jobs.end(job)])
        }
      }
      var count = 0
      for await _ in began {
        count += 1
        if count == 2 { break }
      }
      run.cancel()
      await #expect(throws: CancellationError.self) { try await run.value }
      #expect(try await jobs.open() == [1])
      #expect(try await jobs.row(1) == Jobs.Job(due: 0, attempts: 0, error: nil))
    }
  }

  // MARK: Backoff

  @Test(arguments: [(1, 0.0, 1.0), (1, 1.0, 2.0), (3, 1.0, 8.0), (11, 1.0, 2_048.0), (40, 1.0, 3_600.0)])
  func `the delay doubles with each failure up to an hour, and half of it is random`(
    failures: Int, random: Double, seconds: Double
  ) {
    #expect(Backoff.delivery.seconds(afterFailures: failures, random: random) == seconds)
  }

  @Test(arguments: [(nil, 2.0), (1.0, 2.0), (30.0, 30.0), (86_400.0, 3_600.0)] as [(TimeInterval?, Double)])
  func `a Retry-After lengthens a delay, by an hour at most`(retryAfter: TimeInterval?, seconds: Double) {
    #expect(Backoff.delivery.seconds(afterFailures: 1, retryAfter: retryAfter, random: 1) == seconds)
  }

  private enum Failure: Error { case ofOne, ofAll }

  /// A table of jobs with a hand-set clock.
  private struct Jobs: Sendable {
    let pool: PostgresPool
    let start = Date(timeIntervalSince1970: 1_800_000_000)
    private let clock = HandClock()
    private let registry = PrometheusRegistry()
    private let queue: WorkQueue<Int64>

    /// The key of a row that cannot be read.
    static let unreadable: Int64 = 404
    /// The time of a lease.
    static let time: TimeInterval = 60
    static let table = WorkTable("jobs", key: "id", isOpen: "ended_at IS NULL", deadline: "deadline")

    /// Times are seconds since the start.
    struct Job: Equatable {
      var due: TimeInterval
      var attempts: Int
      var error: String?
    }

    private final class HandClock: Sendable {
      let now = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
    }

    static func with(_ body: (Jobs) async throws -> Void) async throws {
      try await withTestDatabase { database in
        try await database.withPool { pool in
          _ = try await pool.query(
            """
            CREATE TABLE jobs (id bigint PRIMARY KEY, next_attempt_at timestamptz NOT NULL,
              attempts integer NOT NULL DEFAULT 0, last_error text, deadline timestamptz, ended_at timestamptz,
              holder uuid, held_until timestamptz)
            """)
          try await body(Jobs(pool))
        }
      }
    }

    private init(_ pool: PostgresPool) {
      self.pool = pool
      let clock = clock
      queue = WorkQueue(
        Self.table,
        WorkContext(
          pool: pool, clock: ServiceClock(now: { clock.now.withLock(\.self) }),
          logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }, metrics: WorkMetrics(registry)),
        batch: 16, lease: Self.time, kind: { _ in .consumption }, key: \.self,
        endsRun: { $0 as? Failure == .ofAll },
        read: { row in
          let id = try row.decode("id", as: Int64.self)
          if id == Self.unreadable { throw Failure.ofOne }
          return id
        })
    }

    func advance(seconds: TimeInterval) { clock.now.withLock { $0 += seconds } }

    func lease() -> WorkLease { WorkLease(at: clock.now.withLock(\.self), for: Self.time) }

    func add(_ due: [Int64: TimeInterval]) async throws {
      for (id, seconds) in due {
        _ = try await pool.query(
          "INSERT INTO jobs (id, next_attempt_at) VALUES (\(id), \(start + seconds))")
      }
    }

    func claim(_ lease: WorkLease, limit: Int = 16) async throws -> [Int64] {
      try await pool.query(Self.table.claim(lease, limit: "\(limit)", returning: "id"))
        .map { try $0.decode("id", as: Int64.self) }.sorted()
    }

    @discardableResult
    func work(
      _ attempt: @escaping @Sendable (Int64, WorkLease) async throws -> WorkOutcome
    ) async throws -> Int {
      try await queue.runAll(
        { Self.table.claim($0, limit: "\($1)", returning: "id") }, attempt: attempt)
    }

    static func end(_ job: Int64) -> Query { "UPDATE jobs SET ended_at = now() WHERE id = \(job)" }

    func row(_ id: Int64) async throws -> Job {
      let row = try await pool.query("SELECT * FROM jobs WHERE id = \(id)")[0]
      return Job(
        due: try row.decode("next_attempt_at", as: Date.self).timeIntervalSince(start),
        attempts: try row.decode("attempts"), error: try row.decode("last_error"))
    }

    func open() async throws -> [Int64] {
      try await pool.query("SELECT id FROM jobs WHERE ended_at IS NULL ORDER BY id").map {
        try $0.decode("id", as: Int64.self)
      }
    }

    /// How many attempts are counted with this outcome.
    func counted(_ outcome: String) -> Int? {
      let text = String(decoding: registry.render(), as: UTF8.self)
      let series = #"receiptd_work_attempts_total{kind="consumption",outcome="\#(outcome)"} "#
      return text.split(separator: "\n").first { $0.hasPrefix(series) }
        .flatMap { Int($0.dropFirst(series.count)) }
    }
  }
}
