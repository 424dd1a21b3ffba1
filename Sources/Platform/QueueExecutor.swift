public import Dispatch

/// Runs tasks on a serial Dispatch queue, so that they are where the events that they wait for are delivered. Each `await`
/// of such an event saves two changes of threads.
public final class QueueExecutor: TaskExecutor {
  private let queue: DispatchQueue

  /// An executor that runs tasks on `queue`.
  public init(queue: DispatchQueue) {
    self.queue = queue
  }

  /// Adds part of a task to the end of the queue.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
