import Postgres
import Work

/// Transactions of a job or a command under the locks of many customers.
///
/// A transaction that waits for one lock holds those that it has. So the groups are small and wait for a short time,
/// and the members of a group that did not get its locks are tried one by one.
package enum LockedGroups {
  /// The most customers that one transaction locks.
  package static let size = 16
  /// How long a transaction waits for one lock.
  package static let lockTimeout = LockTimeout.shared

  /// Calls `body` with groups of the members, each of which it locks for at most ``lockTimeout``.
  /// - Parameter body: a transaction; its result is added up.
  /// - Returns: the sum, and the members whose lock was not granted.
  /// - Throws: errors of `body` but 55P03.
  package nonisolated(nonsending) static func run<Member>(
    _ members: [Member], _ body: nonisolated(nonsending) ([Member]) async throws -> Int
  ) async throws -> (sum: Int, locked: [Member]) {
    var sum = 0
    var locked: [Member] = []
    for group in members.chunked(by: size) {
      do {
        sum += try await body(group)
        continue
      } catch let error as PostgresError where error.isLockNotGranted {}
      for member in group {
        do {
          sum += try await body([member])
        } catch let error as PostgresError where error.isLockNotGranted {
          locked.append(member)
        }
      }
    }
    return (sum, locked)
  }
}

extension Array {
  /// The elements in arrays of at most `size`.
  package func chunked(by size: Int) -> [[Element]] {
    stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
  }
}
