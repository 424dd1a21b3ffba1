import Dispatch
import Synchronization
import Testing

@testable import Sockets

@Suite(.timeLimit(.minutes(10))) struct LoopRoundTests {
  private final class Owner: Sendable {}

  /// What was done, in the order of doing.
  private final class Diary: Sendable {
    private let lines = Mutex<[String]>([])

    func note(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
  }

  @Test func `what waits for the end of a round is run once for each owner, after all it brought`() async {
    let (loop, diary, one, other) = (EventLoop(), Diary(), Owner(), Owner())
    // In a round of its own, until it is let go: what follows is found in the next.
    let gate = DispatchSemaphore(value: 0)
    await withCheckedContinuation { continuation in
      loop.execute {
        continuation.resume()
        gate.wait()
      }
    }
    for (name, owner) in [("one", one), ("one", one), ("other", other)] {
      loop.execute {
        diary.note("work of \(name)")
        LoopRound.current?.atEnd(for: owner) { diary.note("end of \(name)") }
      }
    }
    gate.signal()
    // Handed in at the end of that round, it is of the next.
    await withCheckedContinuation { continuation in
      loop.execute { LoopRound.current?.atEnd(for: diary) { loop.execute { continuation.resume() } } }
    }
    #expect(
      diary.all == ["work of one", "work of one", "work of other", "end of one", "end of other"])
    await withCheckedContinuation { continuation in
      loop.execute {
        // Its round is another.
        LoopRound.current?.atEnd(for: one) { continuation.resume() }
      }
    }
  }

  @Test func `what the end of a round leaves for its end is not left behind`() async {
    let (loop, one) = (EventLoop(), Owner())
    await withCheckedContinuation { continuation in
      loop.execute {
        LoopRound.current?.atEnd(for: one) {
          // Nothing else will wake the loop.
          LoopRound.current?.atEnd(for: one) { continuation.resume() }
        }
      }
    }
  }

  @Test func `each loop has rounds of its own, and who is on none has none`() async {
    let loops = [EventLoop(index: 0), EventLoop(index: 1)]
    var rounds: [ObjectIdentifier] = []
    for loop in loops {
      rounds.append(
        await Task(executorPreference: loop) { LoopRound.current.map { ObjectIdentifier($0) } }.value!)
    }
    #expect(rounds[0] != rounds[1])
    let elsewhere = await withCheckedContinuation { continuation in
      DispatchQueue.global().async { continuation.resume(returning: LoopRound.current == nil) }
    }
    #expect(elsewhere)
  }
}
