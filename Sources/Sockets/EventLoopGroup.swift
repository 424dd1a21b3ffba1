import Foundation
import Synchronization

/// A fixed number of event loops among which connections are distributed.
public final class EventLoopGroup: Sendable {
  /// The default group of the process: one loop for each active core.
  public static let shared = EventLoopGroup()

  /// The loops, at least one.
  public let loops: [EventLoop]
  private let counter = Atomic<Int>(0)

  /// - Parameter count: how many loops, or nil for one for each active core.
  public init(count: Int? = nil) {
    let count = max(1, count ?? ProcessInfo.processInfo.activeProcessorCount)
    loops = (0..<count).map { EventLoop(index: $0) }
  }

  /// The next loop, round-robin.
  public func next() -> EventLoop {
    loops[counter.wrappingAdd(1, ordering: .relaxed).oldValue % loops.count]
  }
}
