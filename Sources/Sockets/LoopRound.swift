import Glibc

/// All that an event loop does before it asks again what there is to do.
///
/// Who does for many at once what would cost as much for one (a transaction, say) can wait for its end: whoever else
/// comes in the same round is there by then, and a loop with nothing else to do is at the end already.
public final class LoopRound {
  private typealias End = (owner: ObjectIdentifier, work: @Sendable () -> Void)

  private var ends: [End] = []
  /// The memory of the round before.
  private var spare: [End] = []

  /// The round of the loop that runs the caller; `nil` where none does.
  public static var current: LoopRound? {
    pthread_getspecific(key).map { Unmanaged<LoopRound>.fromOpaque($0).takeUnretainedValue() }
  }

  /// Runs `work` at the end of the round, unless the owner has some already.
  /// - Parameter owner: who must be there until then.
  /// - Precondition: it is ``current``.
  public func atEnd(for owner: AnyObject, _ work: @escaping @Sendable () -> Void) {
    precondition(Self.current === self, "A round is its loop's own.")
    let owner = ObjectIdentifier(owner)
    guard !ends.contains(where: { $0.owner == owner }) else { return }
    ends.append((owner, work))
  }

  // MARK: The loop's thread

  /// From here on it is what the calling thread finds as the current one, until it is abandoned.
  func adopt() { pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque()) }

  /// The calling thread has none any more.
  func abandon() { pthread_setspecific(Self.key, nil) }

  /// Runs what waits for the end, and what that leaves for it.
  func end() {
    while !ends.isEmpty {
      swap(&ends, &spare)
      for end in spare { end.work() }
      spare.removeAll(keepingCapacity: true)
    }
  }

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    // Before the first loop runs, which is the start of the program.
    precondition(pthread_key_create(&key, nil) == 0, "no key is left for what belongs to a thread")
    return key
  }()
}
