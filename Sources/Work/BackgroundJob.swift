import Logging

/// A background job: the work of one run, and the time between two runs.
package struct BackgroundJob: Sendable {
  /// The name in the log.
  let name: String
  /// The time from the end of a run to the start of the next. ``JobRunner`` adds jitter.
  let interval: Duration
  /// The time to the next run after a run that failed.
  let retryInterval: Duration
  /// The value of the label `sweep` under which the runs are counted; `nil` if they are not.
  let sweep: String?
  /// Does all work that is due now.
  ///
  /// - Returns: the number of rows that it brought up to date.
  let runOnce: @Sendable () async throws -> Int

  package init(
    _ name: String, every interval: Duration, retryEvery retryInterval: Duration? = nil,
    countedAs sweep: String? = nil, runOnce: @escaping @Sendable () async throws -> Int
  ) {
    self.name = name
    self.interval = interval
    self.retryInterval = retryInterval ?? interval
    self.sweep = sweep
    self.runOnce = runOnce
  }

  /// A job that counts no rows.
  package init(
    _ name: String, every interval: Duration, retryEvery retryInterval: Duration? = nil,
    runOnce: @escaping @Sendable () async throws -> Void
  ) {
    self.init(name, every: interval, retryEvery: retryInterval) {
      try await runOnce()
      return 0
    }
  }
}

/// Runs background jobs until the task is cancelled. This is the only loop, pause and error log that jobs have.
package struct JobRunner: Sendable {
  private let logger: Logger
  private let countRun: @Sendable (_ sweep: String, _ rows: Int?) -> Void
  private let sleep: @Sendable (Duration) async throws -> Void

  /// - Parameters:
  ///   - countRun: counts a run of a job that is counted, with the rows that it updated, or `nil` if it failed.
  ///   - sleep: waits between two runs; tests pass their own.
  package init(
    logger: Logger, countRun: @escaping @Sendable (_ sweep: String, _ rows: Int?) -> Void,
    sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  ) {
    self.logger = logger
    self.countRun = countRun
    self.sleep = sleep
  }

  /// Runs jobs side by side. A job that fails does not delay the others.
  package func run(_ jobs: [BackgroundJob]) async {
    await withTaskGroup { group in
      for job in jobs { group.addTask { await self.run(job) } }
    }
  }

  /// Runs one job again and again.
  ///
  /// - Parameter waitsFirst: whether the first run comes after one interval.
  package func run(_ job: BackgroundJob, waitsFirst: Bool = false) async {
    var failure: String?
    if waitsFirst { await pause(job.interval) }
    while !Task.isCancelled {
      failure = await attempt(job, after: failure)
      await pause(failure == nil ? job.interval : job.retryInterval)
    }
  }

  /// Runs one job until a run succeeds.
  package func runUntilSuccess(_ job: BackgroundJob) async {
    var failure: String?
    while !Task.isCancelled {
      failure = await attempt(job, after: failure)
      if failure == nil { return }
      await pause(job.retryInterval)
    }
  }

  /// - Parameter former: the reason for which the run before failed.
  /// - Returns: the reason for which this run failed; `nil` if it succeeded.
  private func attempt(_ job: BackgroundJob, after former: String?) async -> String? {
    do {
      let rows = try await job.runOnce()
      if let sweep = job.sweep { countRun(sweep, rows) }
      if rows > 0 { logger.info("a job updated rows", metadata: ["job": "\(job.name)", "rows": "\(rows)"]) }
      if former != nil { logger.notice("a job works again", metadata: ["job": "\(job.name)"]) }
      return nil
    } catch {
      let reason = "\(error)"
      if Task.isCancelled { return reason }
      if let sweep = job.sweep { countRun(sweep, nil) }
      // An outage that fails every run is logged once.
      if reason != former {
        logger.warning(
          "a job failed and will run again", metadata: ["job": "\(job.name)", "reason": "\(reason)"])
      }
      return reason
    }
  }

  /// The jitter keeps servers that started together from running their jobs together.
  private func pause(_ interval: Duration) async {
    try? await sleep(interval * Double.random(in: 0.75...1.25))
  }
}
