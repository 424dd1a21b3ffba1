#if canImport(Darwin)
public import Dispatch
import Foundation
import Synchronization

/// Watches descriptors for the code of one serial Dispatch queue, with Dispatch sources for each descriptor.
///
/// Any thread may call the methods; events come on the queue.
public final class DescriptorWatcher: Sendable {
  /// A descriptor that is watched.
  public struct Watch: Sendable {
    fileprivate let number: UInt64
  }

  private struct Entry {
    var reader: any DispatchSourceRead
    var writer: any DispatchSourceWrite
    var interest: Readiness = []
  }

  private struct State {
    var entries: [UInt64: Entry] = [:]
    var last: UInt64 = 0
  }

  private let queue: DispatchQueue
  private let state = Mutex(State())

  /// A watcher without descriptors.
  public init(queue: DispatchQueue) { self.queue = queue }

  /// Adds a descriptor, for no event yet. `onReady` is retained until ``remove(_:then:)``.
  public func add(_ descriptor: Int32, onReady: @escaping @Sendable (Readiness) -> Void) -> Watch {
    state.withLock { state in
      state.last += 1
      let reader = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
      let writer = DispatchSource.makeWriteSource(fileDescriptor: descriptor, queue: queue)
      reader.setEventHandler { onReady(.reading) }
      writer.setEventHandler { onReady(.writing) }
      state.entries[state.last] = Entry(reader: reader, writer: writer)
      return Watch(number: state.last)
    }
  }

  /// Changes the events for which the descriptor is watched. An event that is not handled is delivered again.
  ///
  /// - Returns: 0.
  public func wait(for interest: Readiness, _ watch: Watch) -> Int32 {
    state.withLock { state in
      guard var entry = state.entries[watch.number] else { return 0 }
      Self.set(entry.reader, .reading, from: entry.interest, to: interest)
      Self.set(entry.writer, .writing, from: entry.interest, to: interest)
      entry.interest = interest
      state.entries[watch.number] = entry
      return 0
    }
  }

  /// Removes a descriptor, and then runs `action` on the queue.
  ///
  /// - Parameter isClosed: whether a library has closed the descriptor already, so that its number may be another's.
  public func remove(
    _ watch: Watch, isClosed: Bool = false, then action: @escaping @Sendable () -> Void
  ) {
    let entry = state.withLock { $0.entries.removeValue(forKey: watch.number) }
    guard let entry else { return queue.async(execute: action) }
    // Both sources must be cancelled before the descriptor is closed. A suspended source is told of its cancellation only
    // after it was resumed.
    let group = DispatchGroup()
    for (source, event) in [(entry.reader, Readiness.reading), (entry.writer, .writing)]
      as [(any DispatchSourceProtocol, Readiness)]
    {
      group.enter()
      source.setCancelHandler { group.leave() }
      source.cancel()
      if !entry.interest.contains(event) { source.resume() }
    }
    group.notify(queue: queue, execute: action)
  }

  private static func set(
    _ source: any DispatchSourceProtocol, _ event: Readiness, from old: Readiness, to new: Readiness
  ) {
    if new.contains(event), !old.contains(event) { source.resume() }
    if old.contains(event), !new.contains(event) { source.suspend() }
  }
}
#endif
