import Synchronization

/// Pieces of tasks that other threads hand to an event loop.
///
/// Who commits for many requests at once wakes all their tasks at once. Each as a block of its own on the loop's queue
/// would be allocated, pushed and popped by itself; so the first that comes has the loop look here, and takes the others
/// along.
final class LoopInbox: Sendable {
  private let waiting = Mutex<[UnownedJob]>([])

  /// - Returns: whether it is the first, so that the loop does not know yet that it has to look.
  func append(_ job: UnownedJob) -> Bool {
    waiting.withLock { waiting in
      waiting.append(job)
      return waiting.count == 1
    }
  }

  /// Everything that waits, in the order of its coming.
  func takeAll() -> [UnownedJob] {
    waiting.withLock { waiting in
      defer { waiting = [] }
      return waiting
    }
  }
}
