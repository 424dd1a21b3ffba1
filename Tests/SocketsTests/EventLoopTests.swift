import Foundation
import Glibc
import Synchronization
import Testing

@testable import Sockets

@Suite(.timeLimit(.minutes(10))) struct EventLoopTests {
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

  // Without its turn, the work below never runs, and the suite's time limit fails the test.
  @Test func `a task that never ends leaves turns of the loop to other work`() async {
    let loop = EventLoop()
    let endless = Task(executorPreference: loop) {
      while !Task.isCancelled { await Task.yield() }
    }
    await withCheckedContinuation { continuation in loop.execute { continuation.resume() } }
    await Task(executorPreference: loop) {}.value
    endless.cancel()
    await endless.value
  }

  @Test func `what is handed to a loop is run, though nobody keeps the loop`() async {
    let number = await withCheckedContinuation { continuation in
      EventLoop(index: 7).execute { continuation.resume(returning: 1) }
    }
    #expect(number == 1)
    let later = await withCheckedContinuation { continuation in
      EventLoop().execute(after: .milliseconds(5)) { continuation.resume(returning: 2) }
    }
    #expect(later == 2)
  }

  @Test(arguments: [true, false])
  func `a loop's thread ends with the last that refers to it, on that thread or another`(
    isOwn: Bool
  ) async throws {
    let name = "event-loop-\(isOwn ? 4_711 : 4_712)"
    let isLetGo = Shelf<Void>()
    do {
      let loop = EventLoop(index: isOwn ? 4_711 : 4_712)
      await withCheckedContinuation { continuation in
        loop.execute {
          continuation.resume()
          guard isOwn else { return }
          while isLetGo.all.isEmpty { sched_yield() }
          // By now nobody else refers to it.
          loop.preconditionOnLoop()
        }
      }
      #expect(try threads().contains(name))
    }
    isLetGo.put(())
    while try threads().contains(name) { await Task.yield() }
  }

  /// The names of the process's threads.
  private func threads() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").compactMap {
      // One that has ended meanwhile has no name.
      (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8))?
        .trimmingCharacters(in: .newlines)
    }
  }

  @Test func `no thread but the loop's sees what is bound to it`() async {
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
