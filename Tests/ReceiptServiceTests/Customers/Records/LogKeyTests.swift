import Foundation
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// The hash of a customer in the log.
@Suite struct LogKeyTests {
  @Test func `a hash is the same for every server of a database and changes with its key`() async throws {
    try await withHarness { harness in
      let (first, second) = (LogKey(), LogKey())
      #expect(first.hash(of: "phone") == nil)
      try await first.load(from: harness.pool)
      try await second.load(from: harness.pool)
      let hash = try #require(first.hash(of: "phone"))
      #expect(hash.count == 16 && hash == second.hash(of: "phone"))
      #expect(first.hash(of: "phone 2") != hash)
      _ = try await harness.pool.query("UPDATE log_keys SET key = decode('00', 'hex')")
      try await second.load(from: harness.pool)
      #expect(second.hash(of: "phone") != hash)
    }
  }

  @Test func `a user's id has one hash in any case, a device's id one for each spelling`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let hashes = try await harness.service.support.logHashes(of: user.uuidString)
      let lower = try await harness.service.support.logHashes(of: user.uuidString.lowercased())
      #expect(hashes.map(\.id) == [user.uuidString, user.uuidString.lowercased()].sorted())
      #expect(lower.count == 1 && hashes.contains { $0.hash == lower[0].hash })
    }
  }

  @Test func `without a row in log_keys the key is read later`() async throws {
    try await withHarness { harness in
      _ = try await harness.pool.query("DELETE FROM log_keys")
      let key = LogKey()
      await #expect(throws: (any Error).self) { try await key.load(from: harness.pool) }
      #expect(key.hash(of: "phone") == nil)
    }
  }
}
