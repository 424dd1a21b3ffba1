import Dispatch
import Synchronization

/// Sends requests to stop a query, which block, one after the other on a thread of their own.
/// When many have piled up, because the server does not answer, further ones are dropped: their
/// connections are gone already, and the server notices that by itself in the end.
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
