import AppStoreSimulator
import Dispatch
import Foundation
import Logging
import Postgres
import Sockets
import Testing

@testable import ReceiptService

/// Entries and event loops as they are in the server.
@Suite(.timeLimit(.minutes(10))) struct LedgerRoundTests {
  @Test func `what an event loop takes in within one round shares a transaction`() async throws {
    try await withHarness { harness in
      let (intake, validation) = (harness.service.notifications, harness.service.validation)
      // One that nothing but the round's end moves, however long the machine stands still meanwhile.
      let ledger = LedgerWriter(
        pool: harness.pool, recentNotifications: RecentNotifications(), catalog: validation.catalog,
        clock: harness.clock.service,
        logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }, metrics: validation.metrics,
        queue: LedgerQueue(patience: .seconds(600)))
      // As many as are not worth a transaction before.
      let entries = try (1..<LedgerQueue<Int>.entriesWorthALane).map { _ in
        try intake.entry(for: harness.buy().notification.signedPayload)
      }
      let loop = EventLoop()
      // In a round of its own, until all of them are there.
      let gate = DispatchSemaphore(value: 0)
      await withCheckedContinuation { continuation in
        loop.execute {
          continuation.resume()
          gate.wait()
        }
      }
      let first = Task(executorPreference: loop) { try await ledger.record(entries[0]).isNews }
      // A lane that was started for the first has taken it by the end of this, alone.
      let executors = harness.pool.executors
      loop.execute {
        let passed = DispatchSemaphore(value: 0)
        for executor in executors {
          Task(executorPreference: executor) { passed.signal() }
          passed.wait()
        }
      }
      let others = entries.dropFirst().map { entry in
        Task(executorPreference: loop) { try await ledger.record(entry).isNews }
      }
      gate.signal()
      for task in [first] + others { #expect(try await task.value) }

      let row = try await harness.pool.query(
        "SELECT count(*), count(DISTINCT xmin::text) FROM notifications")[0]
      #expect(try row.decode(0, as: Int.self) == entries.count)
      #expect(try row.decode(1, as: Int.self) == 1)
    }
  }
}
