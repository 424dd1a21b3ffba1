import Dispatch
import Foundation
import Platform
import Synchronization
import TestSocket
import Testing

@Suite(.timeLimit(.minutes(10))) struct SocketQueueTests {
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

  private let queue = SocketQueue(label: "tests")

  /// Waits until the queue has handled the events that were ready before the call.
  private func settle() async {
    for _ in 0..<3 {
      await withCheckedContinuation { done in
        queue.queue.asyncAfter(deadline: .now() + 0.01) { done.resume() }
      }
    }
  }

  @Test func `the queue reports unread bytes again until they are read`() async throws {
    let watched = try Watched()
    let watch = queue.add(watched.descriptor) { watched.ready($0) }
    #expect(queue.wait(for: .reading, watch) == 0)
    try watched.peer.send("xyz")
    var events = watched.events.makeAsyncIterator()
    for _ in 0..<3 { #expect(await events.next() == .reading) }
    await removed(watch)
  }

  @Test func `the queue reports only the events that a descriptor waits for`() async throws {
    let watched = try Watched()
    let count = Mutex(0)
    let watch = queue.add(watched.descriptor) { readiness in
      count.withLock { $0 += 1 }
      watched.ready(readiness)
    }
    try watched.peer.send("x")
    await settle()
    #expect(count.withLock { $0 } == 0)
    var events = watched.events.makeAsyncIterator()
    #expect(queue.wait(for: .writing, watch) == 0)
    #expect(await events.next() == .writing)
    #expect(queue.wait(for: [], watch) == 0)
    await settle()
    let before = count.withLock { $0 }
    await settle()
    #expect(count.withLock { $0 } == before)
    await removed(watch)
  }

  @Test(arguments: [Readiness.reading, .writing, [.reading, .writing]])
  func `the queue reports a hang-up as the events that the descriptor waits for`(interest: Readiness)
    async throws
  {
    let watched = try Watched()
    let watch = queue.add(watched.descriptor) { watched.ready($0) }
    _ = shutdown(watched.peer.descriptor, Int32(SHUT_RDWR))
    #expect(queue.wait(for: interest, watch) == 0)
    var events = watched.events.makeAsyncIterator()
    #expect(await events.next() == interest)
    await removed(watch)
  }

  @Test func `a removed descriptor gets no event, even if the kernel has already reported it`() async throws {
    let pair = [try Watched(), try Watched()]
    let events = Mutex(0)
    let watches = Mutex<[SocketQueue.Watch]>([])
    let added = pair.indices.map { index in
      queue.add(pair[index].descriptor) { readiness in
        pair[index].ready(readiness)
        events.withLock { $0 += 1 }
        // The first handler removes the other descriptor, whose event the kernel has already reported.
        queue.remove(watches.withLock { $0[1 - index] }) {}
      }
    }
    watches.withLock { $0 = added }
    for watched in pair { try watched.peer.send("x") }
    await withCheckedContinuation { done in
      queue.execute {
        for watch in added { #expect(queue.wait(for: .reading, watch) == 0) }
        done.resume()
      }
    }
    await settle()
    #expect(events.withLock { $0 } == 1)
  }

  @Test func `the queue releases a handler when its descriptor is removed`() async throws {
    var watched: Watched? = try Watched()
    weak let kept = watched
    let descriptor = try #require(watched).descriptor
    let watch = queue.add(descriptor) { [watched] in watched?.ready($0) }
    watched = nil
    #expect(kept != nil)
    await removed(watch)
    #expect(kept == nil)
  }

  private func removed(_ watch: SocketQueue.Watch) async {
    await withCheckedContinuation { done in queue.remove(watch) { done.resume() } }
    await settle()
  }
}
