import DequeModule
import Synchronization

/// Limits how many requests need the same lock of the database at a time. A key stands for a lock: of the tasks with
/// one key, a few run, and the others wait in memory, without a connection and for a limited time.
package final class Turns<Key: Hashable & Sendable>: Sendable {
  private struct Waiting: Sendable {
    var id: UInt64
    var continuation: CheckedContinuation<Void, any Error>
  }

  private struct Line: Sendable {
    var running = 0
    var waiting: Deque<Waiting> = []
  }

  private struct Lines: Sendable {
    var byKey: [Key: Line] = [:]
    var lastID: UInt64 = 0
  }

  private enum Place: Sendable {
    case runs
    case waits(UInt64)
    case isRefused
  }

  private let atOnce: Int
  private let maximumWaiting: Int
  private let patience: Duration
  private let lines = Mutex(Lines())

  /// - Parameters:
  ///   - atOnce: the number of tasks with one key that run at a time.
  ///   - maximumWaiting: the most tasks that wait for one key.
  ///   - patience: how long a task waits for its turn.
  package init(atOnce: Int = 1, maximumWaiting: Int, patience: Duration) {
    self.atOnce = atOnce
    self.maximumWaiting = maximumWaiting
    self.patience = patience
  }

  /// The number of tasks that wait for their turn.
  package var waitingCount: Int {
    lines.withLock { $0.byKey.values.reduce(0) { $0 + $1.waiting.count } }
  }

  /// Waits until the task may run. It then calls ``end(_:_:)``, also after an error.
  /// - Throws: ``TooManyWaiting`` if too many tasks wait for the key; ``TurnTimeout`` after the patience; the failure
  ///   that a running task gave to ``end(_:_:)`` meanwhile.
  package nonisolated(nonsending) func take(_ key: Key) async throws {
    try await withCheckedThrowingContinuation { continuation in
      let place = lines.withLock { join(continuation, at: key, &$0) }
      switch place {
      case .runs: continuation.resume()
      case .isRefused: continuation.resume(throwing: TooManyWaiting())
      case .waits(let id):
        Task {
          try? await Task.sleep(for: patience)
          giveUp(id, key)
        }
      }
    }
  }

  private func join(
    _ continuation: CheckedContinuation<Void, any Error>, at key: Key, _ lines: inout Lines
  ) -> Place {
    var line = lines.byKey.removeValue(forKey: key) ?? Line()
    defer { lines.byKey[key] = line }
    if line.running < atOnce {
      line.running += 1
      return .runs
    }
    guard line.waiting.count < maximumWaiting else { return .isRefused }
    lines.lastID += 1
    line.waiting.append(Waiting(id: lines.lastID, continuation: continuation))
    return .waits(lines.lastID)
  }

  private func giveUp(_ id: UInt64, _ key: Key) {
    let waiting = lines.withLock { lines -> Waiting? in
      guard let index = lines.byKey[key]?.waiting.firstIndex(where: { $0.id == id }) else { return nil }
      return lines.byKey[key]?.waiting.remove(at: index)
    }
    waiting?.continuation.resume(throwing: TurnTimeout())
  }

  /// Ends a turn; the next one begins.
  /// - Parameter failure: an error that the waiting tasks would meet too. They get it at once.
  package func end(_ key: Key, _ failure: (any Error)? = nil) {
    let next = lines.withLock { lines -> Deque<Waiting> in
      guard var line = lines.byKey.removeValue(forKey: key) else { return [] }
      var next: Deque<Waiting> = []
      if failure != nil {
        swap(&next, &line.waiting)
        line.running -= 1
      } else if let first = line.waiting.popFirst() {
        next.append(first)
      } else {
        line.running -= 1
      }
      if line.running > 0 { lines.byKey[key] = line }
      return next
    }
    for waiting in next {
      if let failure { waiting.continuation.resume(throwing: failure) } else { waiting.continuation.resume() }
    }
  }
}

/// Too many tasks wait for the same turn.
package struct TooManyWaiting: Error {}

/// The turn did not come in time.
package struct TurnTimeout: Error {}
