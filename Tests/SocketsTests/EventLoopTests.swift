import Dispatch
import Synchronization
import Testing

@testable import Sockets

@Suite(.timeLimit(.minutes(10))) struct EventLoopTests {
  /// A list that many tasks append to.
  private final class Shelf<Item: Sendable>: Sendable {
    private let items = Mutex<[Item]>([])

    func put(_ item: Item) { items.withLock { $0.append(item) } }
    var all: [Item] { items.withLock { $0 } }
  }

  @Test func `a thousand tasks that one thread resumes all run on their event loop`() async {
    let loop = EventLoop()
    let asleep = Shelf<CheckedContinuation<Void, Never>>()
    let finished = Shelf<Int>()
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<1_000 {
        group.addTask(executorPreference: loop.queue) {
          await withCheckedContinuation { asleep.put($0) }
          // Traps unless the event loop runs it.
          _ = loop.resources
          finished.put(number)
        }
      }
      while asleep.all.count < 1_000 { await Task.yield() }
      for continuation in asleep.all { continuation.resume() }
    }
    #expect(finished.all.sorted() == Array(0..<1_000))
  }

  // If the task blocks the loop, the suite's time limit fails the test.
  @Test func `an event loop runs other work between the steps of an endless task`() async {
    let loop = EventLoop()
    let endless = Task(executorPreference: loop.queue) {
      while !Task.isCancelled { await Task.yield() }
    }
    await withCheckedContinuation { continuation in loop.execute { continuation.resume() } }
    await Task(executorPreference: loop.queue) {}.value
    endless.cancel()
    await endless.value
  }

  @Test func `an event loop runs its pending work although no reference to it is left`() async {
    let number = await withCheckedContinuation { continuation in
      EventLoop(index: 7).execute { continuation.resume(returning: 1) }
    }
    #expect(number == 1)
    let later = await withCheckedContinuation { continuation in
      EventLoop().execute(after: .milliseconds(5)) { continuation.resume(returning: 2) }
    }
    #expect(later == 2)
  }

  @Test func `an event loop and its resources are released with the last reference`() async {
    // Written before the loop is released and read afterwards, so never concurrently.
    nonisolated(unsafe) weak var resources: LoopResources?
    weak var released: EventLoop?
    do {
      let loop = EventLoop()
      released = loop
      await withCheckedContinuation { continuation in
        loop.execute { [unowned loop] in
          resources = loop.resources
          continuation.resume()
        }
      }
      #expect(resources != nil)
    }
    while released != nil || resources != nil { await Task.yield() }
  }

  @Test func `only its event loop can read a value that is bound to it`() async {
    await #expect(processExitsWith: .failure) {
      let loop = EventLoop()
      print(LoopBound(1, to: loop).value)
    }
    await #expect(processExitsWith: .success) {
      let loop = EventLoop()
      let bound = LoopBound(1, to: loop)
      await withCheckedContinuation { continuation in
        loop.execute {
          precondition(bound.value == 1)
          continuation.resume()
        }
      }
    }
  }
}
