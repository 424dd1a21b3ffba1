/// Work without an end of its own, and how it is ended.
struct RunningJobs: Sendable {
  private let task: Task<Void, Never>

  /// Starts it. It ends when its task is cancelled.
  init(_ work: @escaping @Sendable () async -> Void) {
    task = Task { await work() }
  }

  /// Tells it to end and waits until it has, but no longer than this: whoever stops a process must not depend on the
  /// good will of what runs in it.
  ///
  /// - Returns: whether it ended.
  func end(within time: Duration) async -> Bool {
    task.cancel()
    let (ends, continuation) = AsyncStream.makeStream(of: Bool.self)
    let timer = Task {
      try? await Task.sleep(for: time)
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
