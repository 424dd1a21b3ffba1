import Foundation

/// Runs a blocking call on a thread of its own. Swift's task threads are as few as the processors, so a test that
/// blocked one would delay the servers of other tests beyond their deadlines.
public func onOwnThread<R: Sendable>(_ body: @escaping @Sendable () throws -> R) async throws -> R {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
  }
}
