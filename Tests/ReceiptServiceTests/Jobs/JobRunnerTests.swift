import Logging
import PrometheusText
import Synchronization
import Testing
import Work

@testable import Ledger
@testable import ReceiptService

/// The runner of the background jobs, with a sleep that only records how long it would take.
@Suite(.timeLimit(.minutes(10))) struct JobRunnerTests {
  private struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  /// Runs a job until it has slept this often.
  private final class Fixture: Sendable {
    let log = LogLines()
    let metrics = ServiceMetrics()
    let runs = Mutex(0)
    let sleeps = Mutex<[Duration]>([])

    var runner: JobRunner {
      JobRunner(
        logger: Logger(label: "tests") { [log] _ in log }, countRun: metrics.jobs.swept,
        sleep: { duration in self.sleeps.withLock { $0.append(duration) } })
    }

    /// Runs a job until its task is cancelled, which happens at the run of this number.
    func run(_ job: BackgroundJob, waitsFirst: Bool = false) async {
      await Task { await runner.run(job, waitsFirst: waitsFirst) }.value
    }

    /// Counts a run; the run of number `last` cancels its task. A later one does so too, so that a test whose job runs
    /// on fails and ends.
    func begin(last: Int) -> Int {
      let run = runs.withLock { runs in
        runs += 1
        return runs
      }
      if last > 0, run >= last { withUnsafeCurrentTask { $0?.cancel() } }
      return run
    }

    func lines(_ text: String) -> Int { log.all.count { $0.contains(text) } }

    func scrape() throws -> Scrape { try Scrape(String(decoding: metrics.registry.render(), as: UTF8.self)) }
  }

  private static func isJittered(_ sleep: Duration, _ interval: Duration) -> Bool {
    (interval * 0.75...interval * 1.25).contains(sleep)
  }

  @Test func `a background job runs until its task is cancelled, with a jittered pause after each run`()
    async throws
  {
    let fixture = Fixture()
    let job = BackgroundJob("test", every: .seconds(20), countedAs: "test") { fixture.begin(last: 50) }
    await fixture.run(job)
    #expect(fixture.runs.withLock { $0 } == 50)
    let sleeps = fixture.sleeps.withLock { $0 }
    #expect(sleeps.count == 50)
    #expect(sleeps.allSatisfy { Self.isJittered($0, .seconds(20)) })
    #expect(Set(sleeps).count > 1)
    let scrape = try fixture.scrape()
    #expect(scrape[#"receiptd_sweep_runs_total{outcome="ok",sweep="test"}"#] == 50)
    #expect(scrape[#"receiptd_sweep_rows_total{sweep="test"}"#] == Double((1...50).reduce(0, +)))
  }

  @Test func `a job's failures for the same reason are logged once, and its recovery too`() async throws {
    let fixture = Fixture()
    let job = BackgroundJob(
      "test", every: .seconds(20), retryEvery: .seconds(2), countedAs: "test"
    ) {
      let run = fixture.begin(last: 8)
      if run <= 4 { throw Failure(description: "away") }
      if run == 5 { throw Failure(description: "full") }
      return 0
    }
    await fixture.run(job)
    #expect(fixture.lines("a job failed and will run again") == 2)
    #expect(fixture.lines("away") == 1)
    #expect(fixture.lines("full") == 1)
    #expect(fixture.lines("a job works again") == 1)
    let sleeps = fixture.sleeps.withLock { $0 }
    #expect(sleeps.prefix(5).allSatisfy { Self.isJittered($0, .seconds(2)) })
    #expect(sleeps.dropFirst(5).allSatisfy { Self.isJittered($0, .seconds(20)) })
    let scrape = try fixture.scrape()
    #expect(scrape[#"receiptd_sweep_runs_total{outcome="failed",sweep="test"}"#] == 5)
    #expect(scrape[#"receiptd_sweep_runs_total{outcome="ok",sweep="test"}"#] == 3)
  }

  @Test func `a job run that a cancellation ends is neither logged nor counted as a failure`() async throws {
    let fixture = Fixture()
    let job = BackgroundJob("test", every: .seconds(20), countedAs: "test") {
      _ = fixture.begin(last: 1)
      throw CancellationError()
    }
    await fixture.run(job)
    #expect(fixture.log.all.isEmpty)
    #expect(try fixture.scrape().counts("receiptd_sweep_runs_total").isEmpty)
  }

  @Test func `a job that runs until success stops after its first successful run`() async {
    let fixture = Fixture()
    let job = BackgroundJob("test", every: .seconds(30)) {
      if fixture.begin(last: 0) < 3 { throw Failure(description: "away") }
    }
    await fixture.runner.runUntilSuccess(job)
    #expect(fixture.runs.withLock { $0 } == 3)
    #expect(fixture.sleeps.withLock { $0.count } == 2)
  }

  @Test func `a job that waits first sleeps one interval before its first run`() async {
    let fixture = Fixture()
    let job = BackgroundJob("test", every: .seconds(3_600)) {
      #expect(fixture.sleeps.withLock { $0.count } == 1)
      _ = fixture.begin(last: 1)
    }
    await fixture.run(job, waitsFirst: true)
    #expect(fixture.runs.withLock { $0 } == 1)
  }

  @Test func `a job that does not return does not stop the other jobs`() async {
    let fixture = Fixture()
    let (blocked, release) = AsyncStream.makeStream(of: Void.self)
    let blocking = BackgroundJob("blocking", every: .seconds(1)) { for await _ in blocked {} }
    let working = BackgroundJob("working", every: .seconds(1)) {
      if fixture.begin(last: 0) == 3 { release.finish() }
    }
    let runner = fixture.runner
    let task = Task { await runner.run([blocking, working]) }
    for await _ in blocked {}
    task.cancel()
    await task.value
    #expect(fixture.runs.withLock { $0 } >= 3)
  }
}
