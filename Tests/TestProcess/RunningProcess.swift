import Foundation
import Synchronization

/// A running program. A thread of its own waits for its end.
public final class RunningProcess: Sendable {
  private enum State {
    case running([CheckedContinuation<Int32, Never>])
    case ended(Int32)
  }

  private let identifier: pid_t
  private let state = Mutex(State.running([]))

  init(_ identifier: pid_t) {
    self.identifier = identifier
    Thread.detachNewThread { self.awaitEnd() }
  }

  /// Whether the program has not ended yet.
  public var isRunning: Bool {
    state.withLock { if case .running = $0 { true } else { false } }
  }

  /// Sends a signal unless the program has ended, since another process may have its id by then.
  public func signal(_ number: Int32) {
    state.withLock { if case .running = $0 { kill(identifier, number) } }
  }

  /// Waits until the program has ended.
  /// - Returns: its exit status, or the negative number of the signal that ended it.
  public func exitStatus() async -> Int32 {
    await withCheckedContinuation { continuation in
      let status: Int32? = state.withLock { state in
        switch state {
        case .ended(let status): return status
        case .running(let waiting):
          state = .running(waiting + [continuation])
          return nil
        }
      }
      if let status { continuation.resume(returning: status) }
    }
  }

  private func awaitEnd() {
    var info = siginfo_t()
    // Not reaped yet, so no other process has its id.
    while waitid(P_PID, id_t(identifier), &info, WEXITED | WNOWAIT) < 0, errno == EINTR {}
    let (waiting, status) = state.withLock { state -> ([CheckedContinuation<Int32, Never>], Int32) in
      var word: Int32 = 0
      while waitpid(identifier, &word, 0) < 0, errno == EINTR {}
      // WIFEXITED and WEXITSTATUS of wait(2), which are macros.
      let status = word & 0x7F == 0 ? word >> 8 & 0xFF : -(word & 0x7F)
      defer { state = .ended(status) }
      if case .running(let waiting) = state { return (waiting, status) }
      return ([], status)
    }
    for continuation in waiting { continuation.resume(returning: status) }
  }
}
