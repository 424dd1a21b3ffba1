import Dispatch
import Synchronization

/// Sends cancel requests one after the other on a queue of its own, because sending blocks.
///
/// When the server does not answer and the queue is full, further requests are dropped. Their connections are closed
/// already, which the server notices later.
final class CancellationQueue: Sendable {
  private static let limit = 32
  private let queue = DispatchQueue(label: "postgres.cancel")
  private let waiting = Mutex(0)

  func send(_ request: CancelRequest) {
    let isAccepted = waiting.withLock { waiting in
      guard waiting < Self.limit else { return false }
      waiting += 1
      return true
    }
    guard isAccepted else { return request.discard() }
    queue.async {
      request.send()
      self.waiting.withLock { $0 -= 1 }
    }
  }
}
