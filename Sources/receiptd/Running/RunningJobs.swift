/// A task that runs the background jobs until it is stopped.
struct RunningJobs: Sendable {
  private let task: Task<Void, Never>

  /// Starts the work, which must end when its task is cancelled.
  init(_ work: @escaping @Sendable () async -> Void) {
    task = Task { await work() }
  }

  /// Cancels the task and waits for its end, but no longer than the timeout: a job that hangs must not keep the process
  /// from stopping.
  ///
  /// - Returns: whether the task ended.
  func stop(within timeout: Duration) async -> Bool {
    task.cancel()
    let (ends, continuation) = AsyncStream.makeStream(of: Bool.self)
    let timer = Task {
      try? await Task.sleep(for: timeout)
      continuation.yield(false)
    }
    defer { timer.cancel() }
    Task {
      await task.value
      continuation.yield(true)
    }
    return await ends.first { _ in true } ?? false
  }
}
