import Foundation

/// Runs a call that blocks on a thread of its own. The threads that run Swift's tasks are as few as the machine's
/// processors: a test that waited on one of them would keep the server under another test from its deadlines.
public func onOwnThread<R: Sendable>(_ body: @escaping @Sendable () throws -> R) async throws -> R {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
  }
}
