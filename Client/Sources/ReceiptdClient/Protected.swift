import Foundation

/// A value behind a lock. `Synchronization.Mutex` needs iOS 18.
///
/// `@unchecked Sendable` is right: the value is only reached under the lock.
final class Protected<Value: Sendable>: @unchecked Sendable {
  private let lock = NSLock()
  private var value: Value

  init(_ value: Value) { self.value = value }

  func with<R>(_ body: (inout Value) throws -> R) rethrows -> R {
    lock.lock()
    defer { lock.unlock() }
    return try body(&value)
  }
}

/// Lets one task at a time into a section with suspension points, in the order of arrival.
actor Turnstile {
  private var isTaken = false
  private var line: [CheckedContinuation<Void, Never>] = []

  func enter() async {
    if isTaken {
      await withCheckedContinuation { line.append($0) }
    } else {
      isTaken = true
    }
  }

  func leave() {
    if line.isEmpty {
      isTaken = false
    } else {
      line.removeFirst().resume()
    }
  }
}
