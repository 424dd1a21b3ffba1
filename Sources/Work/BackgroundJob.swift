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
