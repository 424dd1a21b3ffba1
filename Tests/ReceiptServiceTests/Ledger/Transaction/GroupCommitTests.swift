import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Ledger
@testable import ReceiptService

@Suite(.timeLimit(.minutes(10))) struct GroupCommitTests {
  @Test func `entries that arrive during a commit share the next transaction`() async throws {
    try await withHarness { harness in
      let intake = harness.service.notifications
      let entries = try (0..<CommitQueue<LedgerWriter.Waiting>.entriesPerWorker).map { _ in
        try intake.entry(for: harness.buy().notification.signedPayload)
      }
      try await SharedCommit.with(harness) { commit in
        try await commit.record(Array(entries.dropFirst()), after: entries[0]) { _, entry in
          let receipt = try await commit.ledger.record(entry)
          #expect(receipt.isNews)
        }
      }
      let rows = try await harness.pool.query(
        "SELECT count(*) FROM notifications GROUP BY xmin::text ORDER BY count(*)")
      let counts = try rows.map { try $0.decode(0, as: Int.self) }
      #expect(counts == [1, entries.count - 1])
    }
  }
}
