import Glibc
import Synchronization

/// Which thread is a loop's own.
final class LoopIdentity: Sendable {
  /// The loop's pthread_t; 0 before it runs and after it has ended, which is nobody's.
  private let thread = Atomic<UInt>(0)

  /// From here on the calling thread is the loop's.
  func adopt() { thread.store(UInt(pthread_self()), ordering: .relaxed) }

  /// The loop has no thread any more; another one may get the same number.
  func abandon() { thread.store(0, ordering: .relaxed) }

  /// Whether the caller runs on it.
  ///
  /// Relaxed, since only the thread itself can read its own number here, and it wrote that before.
  @inline(__always)
  var isCurrent: Bool { thread.load(ordering: .relaxed) == UInt(pthread_self()) }
}
