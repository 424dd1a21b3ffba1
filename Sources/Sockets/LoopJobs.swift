/// Pieces of tasks that a turn of an event loop has set off.
final class LoopJobs {
  /// How many are run in one turn: a task that goes on for ever must not keep the connections waiting.
  private static let maximum = 64

  /// Whether a turn is under way, which will run what waits.
  var isTurning = false
  private var waiting: [UnownedJob] = []

  func append(_ job: UnownedJob) { waiting.append(job) }

  /// Runs what waits, and what that sets off. What is too much for one turn gets turns of its own.
  func runWaiting(on loop: EventLoop) {
    guard !waiting.isEmpty else { return }
    var count = 0
    while count < waiting.count, count < Self.maximum {
      waiting[count].runSynchronously(on: loop.asUnownedTaskExecutor())
      count += 1
    }
    for job in waiting[count...] { loop.enqueueLater(job) }
    waiting.removeAll(keepingCapacity: true)
  }
}
