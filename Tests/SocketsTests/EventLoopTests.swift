import Synchronization
import Testing

@testable import Sockets

@Suite struct EventLoopTests {
  /// What many have put down.
  private final class Shelf<Item: Sendable>: Sendable {
    private let items = Mutex<[Item]>([])

    func put(_ item: Item) { items.withLock { $0.append(item) } }
    var all: [Item] { items.withLock { $0 } }
  }

  @Test func `tasks that one thread wakes at once all go on, each on the loop`() async {
    let loop = EventLoop()
    let asleep = Shelf<CheckedContinuation<Void, Never>>()
    let finished = Shelf<Int>()
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<1_000 {
        group.addTask(executorPreference: loop) {
          await withCheckedContinuation { asleep.put($0) }
          loop.preconditionOnLoop()
          finished.put(number)
        }
      }
      while asleep.all.count < 1_000 { await Task.yield() }
      for continuation in asleep.all { continuation.resume() }
    }
    #expect(finished.all.sorted() == Array(0..<1_000))
  }

  @Test func `a task that goes on for ever keeps nobody else from the loop`() async {
    let loop = EventLoop()
    let endless = Task(executorPreference: loop) {
      while !Task.isCancelled { await Task.yield() }
    }
    await withCheckedContinuation { continuation in loop.execute { continuation.resume() } }
    await Task(executorPreference: loop) {}.value
    endless.cancel()
    await endless.value
  }
}
