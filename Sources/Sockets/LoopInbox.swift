import CEpoll
import Glibc
import Synchronization

/// What other threads hand to an event loop, and what wakes it for that.
///
/// Who commits for many requests at once wakes all their tasks at once. Only the first of them has to wake the
/// loop; the others are found beside it.
final class LoopInbox: Sendable {
  /// Something to be run on the loop.
  enum Item: Sendable {
    case work(@Sendable () -> Void)
    case job(UnownedJob)
  }

  /// What a look into the inbox finds.
  enum Content {
    /// There is something, for this loop.
    case items(EventLoop)
    /// There is nothing, so the loop may sleep: whatever comes from here on rings the alarm.
    case nothing
    /// There is nothing, and nobody is left who could hand anything in.
    case end
  }

  private struct State {
    var items: [Item] = []
    /// The loop, as long as something waits for it: it must not end before that was run.
    var loop: EventLoop?
    var isAsleep = false
    var isEnding = false
  }

  /// An eventfd(2), readable once the alarm has rung. Nobody reads it: who watches it has to be told of each ring
  /// (EPOLLET).
  let alarm = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
  private let state = Mutex(State())

  init() {
    // The start of the program is when this runs.
    precondition(alarm >= 0, "no descriptor is left for an event loop")
  }

  deinit { close(alarm) }

  func append(_ item: Item, for loop: EventLoop) {
    let wasAsleep = state.withLock { state in
      state.items.append(item)
      if state.loop == nil { state.loop = loop }
      defer { state.isAsleep = false }
      return state.isAsleep
    }
    if wasAsleep { eventfd_write(alarm, 1) }
  }

  /// Nobody refers to the loop any more, so nothing waits for it.
  func end() {
    state.withLock { $0.isEnding = true }
    eventfd_write(alarm, 1)
  }

  // MARK: The loop's thread

  /// Everything that waits, in the order of its coming.
  /// - Parameter items: empty; its memory goes to what comes next.
  func take(_ items: inout [Item]) -> Content {
    state.withLock { state in
      guard let loop = state.loop.take() else {
        state.isAsleep = !state.isEnding
        return state.isEnding ? .end : .nothing
      }
      swap(&state.items, &items)
      return .items(loop)
    }
  }

  /// The loop has been woken by something else, and looks here before it sleeps again.
  func isAwake() { state.withLock { $0.isAsleep = false } }
}
