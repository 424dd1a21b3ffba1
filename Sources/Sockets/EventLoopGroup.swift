import FoundationEssentials
import Synchronization

/// A fixed number of event loops among which connections are dealt out.
public final class EventLoopGroup: Sendable {
  /// The loops that a process's servers share unless they are given others: one for each active core.
  public static let shared = EventLoopGroup()

  /// The loops; at least one.
  public let loops: [EventLoop]
  private let dealt = Atomic<Int>(0)

  /// - Parameter count: how many loops, or nil for one for each active core.
  public init(count: Int? = nil) {
    let count = max(1, count ?? ProcessInfo.processInfo.activeProcessorCount)
    loops = (0..<count).map { EventLoop(index: $0) }
  }

  /// The loop whose turn it is.
  public func next() -> EventLoop {
    loops[dealt.wrappingAdd(1, ordering: .relaxed).oldValue % loops.count]
  }
}
