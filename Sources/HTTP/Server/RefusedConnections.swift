import Platform
import Synchronization

/// Counts refused connections for the log. A flood of connections must not fill the disk.
final class RefusedConnections: Sendable {
  /// The shortest time between two lines.
  static let pause = Duration.seconds(10)

  private let state = Mutex<(count: Int, nextLine: MonotonicInstant)>((0, MonotonicInstant(nanoseconds: 0)))

  /// Counts a connection.
  /// - Returns: the number of connections since the last line, if it is time for another one.
  func add(at now: MonotonicInstant) -> Int? {
    state.withLock { state in
      state.count += 1
      guard now.nanoseconds >= state.nextLine.nanoseconds else { return nil }
      defer { state = (0, now.advanced(by: Self.pause)) }
      return state.count
    }
  }
}
