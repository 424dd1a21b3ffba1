import Synchronization

/// The questions to the App Store about old proofs that are on their way, by purchase, with the requests that wait for them.
///
/// A question goes on when no request waits for it any more. So its own timeout ends it, which tells the circuit breaker of an
/// outage; the shorter patience of a request does not.
final class OpenQuestions: Sendable {
  private let waiting = Mutex<[String: [AsyncStream<Bool>.Continuation]]>([:])

  /// Waits for the answer about a purchase. The first request starts the question; the others wait for the same answer.
  ///
  /// - Parameter question: asks, and returns whether there is an answer.
  /// - Returns: whether there is an answer; `false` too if there is none within `patience`.
  func isAnswered(
    about originalTransactionID: String, within patience: Duration,
    question: @escaping @Sendable () async -> Bool
  ) async -> Bool {
    let (answers, continuation) = AsyncStream.makeStream(of: Bool.self)
    let isFirst = waiting.withLock { waiting -> Bool in
      let isFirst = waiting[originalTransactionID] == nil
      waiting[originalTransactionID, default: []].append(continuation)
      return isFirst
    }
    if isFirst {
      Task { self.finish(originalTransactionID, await question()) }
    }
    return await withTaskGroup(of: Bool.self) { group in
      group.addTask {
        for await isAnswered in answers { return isAnswered }
        return false
      }
      group.addTask {
        try? await Task.sleep(for: patience)
        return false
      }
      let isAnswered = await group.next() ?? false
      group.cancelAll()
      return isAnswered
    }
  }

  private func finish(_ originalTransactionID: String, _ isAnswered: Bool) {
    let requests = waiting.withLock { $0.removeValue(forKey: originalTransactionID) } ?? []
    for request in requests {
      request.yield(isAnswered)
      request.finish()
    }
  }
}
