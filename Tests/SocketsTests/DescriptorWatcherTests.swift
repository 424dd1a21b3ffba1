import Dispatch
import Foundation
import Platform
import Synchronization
import TestSocket
import Testing

@Suite(.timeLimit(.minutes(10))) struct DescriptorWatcherTests {
  /// A watched end of a socket pair, and the events of its handler.
  private final class Watched: Sendable {
    let peer: TestSocket
    let descriptor: Int32
    let events: AsyncStream<Readiness>
    private let found: AsyncStream<Readiness>.Continuation

    init() throws {
      (peer, descriptor) = try TestSocket.pair()
      (events, found) = AsyncStream.makeStream()
    }

    deinit { close(descriptor) }

    func ready(_ readiness: Readiness) {
      var bytes = [UInt8](repeating: 0, count: 1)
      _ = recv(descriptor, &bytes, 1, Int32(MSG_DONTWAIT))
      found.yield(readiness)
    }
  }

  private let queue = DispatchQueue(label: "tests")

  /// Waits until the queue has handled the events that were ready before the call.
  private func settle() async {
    for _ in 0..<3 {
      await withCheckedContinuation { done in queue.asyncAfter(deadline: .now() + 0.01) { done.resume() } }
    }
  }

  @Test func `the watcher reports unread bytes again until they are read`() async throws {
    let (watcher, watched) = (DescriptorWatcher(queue: queue), try Watched())
    let watch = watcher.add(watched.descriptor) { watched.ready($0) }
    #expect(watcher.wait(for: .reading, watch) == 0)
    try watched.peer.send("xyz")
    var events = watched.events.makeAsyncIterator()
    for _ in 0..<3 { #expect(await events.next() == .reading) }
    await removed(watch, from: watcher)
  }

  @Test func `the watcher reports only the events that a descriptor waits for`() async throws {
    let (watcher, watched) = (DescriptorWatcher(queue: queue), try Watched())
    let count = Mutex(0)
    let watch = watcher.add(watched.descriptor) { readiness in
      count.withLock { $0 += 1 }
      watched.ready(readiness)
    }
    try watched.peer.send("x")
    await settle()
    #expect(count.withLock { $0 } == 0)
    var events = watched.events.makeAsyncIterator()
    #expect(watcher.wait(for: .writing, watch) == 0)
    #expect(await events.next() == .writing)
    #expect(watcher.wait(for: [], watch) == 0)
    await settle()
    let before = count.withLock { $0 }
    await settle()
    #expect(count.withLock { $0 } == before)
    await removed(watch, from: watcher)
  }

  @Test(arguments: [Readiness.reading, .writing, [.reading, .writing]])
  func `the watcher reports a hang-up as the events that the descriptor waits for`(interest: Readiness)
    async throws
  {
    let (watcher, watched) = (DescriptorWatcher(queue: queue), try Watched())
    let watch = watcher.add(watched.descriptor) { watched.ready($0) }
    _ = shutdown(watched.peer.descriptor, Int32(SHUT_RDWR))
    #expect(watcher.wait(for: interest, watch) == 0)
    var events = watched.events.makeAsyncIterator()
    #expect(await events.next() == interest)
    await removed(watch, from: watcher)
  }

  @Test func `a removed descriptor gets no event, even if the kernel has already reported it`() async throws {
    let watcher = DescriptorWatcher(queue: queue)
    let pair = [try Watched(), try Watched()]
    let events = Mutex(0)
    let watches = Mutex<[DescriptorWatcher.Watch]>([])
    let added = pair.indices.map { index in
      watcher.add(pair[index].descriptor) { readiness in
        pair[index].ready(readiness)
        events.withLock { $0 += 1 }
        // The first handler removes the other descriptor, whose event the kernel has already reported.
        watcher.remove(watches.withLock { $0[1 - index] }) {}
      }
    }
    watches.withLock { $0 = added }
    for watched in pair { try watched.peer.send("x") }
    await withCheckedContinuation { done in
      queue.async {
        for watch in added { #expect(watcher.wait(for: .reading, watch) == 0) }
        done.resume()
      }
    }
    await settle()
    #expect(events.withLock { $0 } == 1)
  }

  @Test func `the watcher releases a handler when its descriptor is removed`() async throws {
    let watcher = DescriptorWatcher(queue: queue)
    var watched: Watched? = try Watched()
    weak let kept = watched
    let descriptor = try #require(watched).descriptor
    let watch = watcher.add(descriptor) { [watched] in watched?.ready($0) }
    watched = nil
    #expect(kept != nil)
    await removed(watch, from: watcher)
    #expect(kept == nil)
  }

  private func removed(_ watch: DescriptorWatcher.Watch, from watcher: DescriptorWatcher) async {
    await withCheckedContinuation { done in watcher.remove(watch) { done.resume() } }
    await settle()
  }
}
