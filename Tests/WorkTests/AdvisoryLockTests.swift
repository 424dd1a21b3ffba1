import Foundation
import Postgres
import TestDatabase
import Testing

@testable import Work

@Suite struct AdvisoryLockTests {
  /// The former hash combined the kind with the first byte of the name only. "1" and "2" differ in the same bits as the
  /// kinds, so these two names collided.
  @Test(arguments: [("1000000000000001", "2000000000000001"), ("2000000000000002", "1000000000000002")])
  func `a purchase and a customer with names that differ in the first digit do not share an advisory lock`(
    purchase: String, customer: String
  ) async throws {
    #expect(Self.formerKey(1, purchase) == Self.formerKey(2, customer))
    try await withTestDatabase { database in
      try await database.withPool { pool in
        try await pool.withTransaction { holder in
          _ = try await holder.query(AdvisoryLock.acquire(.purchase, [purchase]))
          try await pool.withTransaction { connection in
            let rows = try await connection.query(AdvisoryLock.tryAcquire(.customer, customer))
            #expect(try rows[0].decode(0, as: Bool.self))
          }
        }
      }
    }
  }

  /// The key by the former hash.
  private static func formerKey(_ kind: UInt64, _ name: String) -> Int64 {
    var hash = (0xcbf2_9ce4_8422_2325 as UInt64) ^ kind
    for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return Int64(bitPattern: hash)
  }

  /// Disabled sequential scans make a lookup look expensive, and to start parallel workers takes longer than the lookup.
  @Test func `a lookup of many keys in a large table is not planned with parallel workers`() async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        _ = try await pool.query("CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 20000) AS n")
        _ = try await pool.query("CREATE INDEX ON t (id)")
        _ = try await pool.query("ANALYZE t")
        func plan(_ settings: Query?) async throws -> String {
          try await pool.withTransaction { connection in
            if let settings { _ = try await connection.query(settings) }
            for name in ["parallel_setup_cost", "parallel_tuple_cost", "min_parallel_index_scan_size"] {
              _ = try await connection.query("SELECT set_config(\(name), '0', true)")
            }
            return try await connection.query("EXPLAIN SELECT count(*) FROM t WHERE id > 5").map {
              try $0.decode(0, as: String.self)
            }.joined(separator: "\n")
          }
        }
        #expect(
          try await plan("SELECT set_config('enable_seqscan', 'off', true)").contains("Workers Planned"))
        let lookup = try await plan(LookupPlans.useIndexScans)
        #expect(!lookup.contains("Workers Planned") && lookup.contains("Index"), "\(lookup)")
      }
    }
  }

  @Test func `a lock timeout holds for the locks, and another one for the rest of the transaction`()
    async throws
  {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        let lock = AdvisoryLock.acquire(
          .customer, ["phone"], lockTimeout: .milliseconds(5), later: .milliseconds(750))
        try await pool.withTransaction { holder in
          _ = try await holder.query(lock)
          let timeout = try await holder.query("SHOW lock_timeout")[0].decode(0, as: String.self)
          #expect(timeout == "750ms")
          let error = await #expect(throws: PostgresError.self) {
            try await pool.withTransaction { _ = try await $0.query(lock) }
          }
          #expect(error?.sqlState == "55P03")
        }
      }
    }
  }

  @Test func `no two kinds of advisory locks have a key in common`() {
    let ranges = [AdvisoryLock.fixedKeys] + AdvisoryLock.Kind.allCases.map(\.keys)
    for (index, range) in ranges.enumerated() {
      for other in ranges.dropFirst(index + 1) { #expect(!range.overlaps(other)) }
    }
    for kind in AdvisoryLock.Kind.allCases {
      for number in 0..<1_000 {
        #expect(kind.keys.contains(AdvisoryLock.key(kind, "\(number)")))
        #expect(kind.keys.contains(AdvisoryLock.key(kind, UUID().uuidString)))
      }
    }
  }

  @Test func `100,000 purchase ids have different advisory lock keys`() {
    let keys = (0..<100_000).map { AdvisoryLock.key(.purchase, "20000\(1_000_000_000 + $0)") }
    #expect(Set(keys).count == keys.count)
  }

  /// Advisory locks outside of `AdvisoryLock` must have fixed numbers from the reserved range.
  @Test
  func `every other advisory lock in Sources and migrations has a fixed number from the reserved range`()
    throws
  {
    let package = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
      .standardizedFileURL
    var fixed: Set<Int64> = []
    for folder in ["Sources", "migrations"] {
      let files = try #require(
        FileManager.default.enumerator(at: package.appending(path: folder), includingPropertiesForKeys: nil))
      for case let file as URL in files where ["swift", "sql"].contains(file.pathExtension) {
        guard file.lastPathComponent != "AdvisoryLock.swift" else { continue }
        let text = try String(contentsOf: file, encoding: .utf8)
        for call in text.matches(of: /advisory_[a-z_]*lock[a-z_]*\s*\(([^)]*)\)/) {
          let key = try #require(Int64(call.output.1), "\(file.lastPathComponent): \(call.output.0)")
          #expect(AdvisoryLock.fixedKeys.contains(key), "\(file.lastPathComponent)")
          fixed.insert(key)
        }
      }
    }
    // "migrate" and "forget" in ASCII.
    #expect(fixed == [30_796_665_482_998_885, 112_628_846_781_812])
  }
}
