import Foundation
import Postgres
import Synchronization
import TestDatabase
import Testing

struct PoolTests {
  @Test func `a pool without a free connection fails at the acquire timeout`() async throws {
    try await withPool { configuration in
      configuration.maximumConnections = 1
      configuration.acquireTimeout = .seconds(1)
    } _: { pool in
      let error = try await pool.withConnection { _ in
        try await postgresError { try await pool.query("select 1") }
      }
      #expect(error?.kind == .poolExhausted)
      let one = try await pool.number("select 1")
      #expect(one == 1)
    }
  }

  @Test func `a task that waits for a connection can be cancelled`() async throws {
    try await withPool {
      $0.maximumConnections = 1
    } _: { pool in
      try await pool.withConnection { connection in
        let waiting = Task { try await pool.query("select 1") }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { _ = try await waiting.value }
        _ = try await connection.query("select 1")
      }
    }
  }

  @Test func `500 tasks share four connections, and each gets its own rows`() async throws {
    try await withPool {
      $0.maximumConnections = 4
    } _: { pool in
      let sum = try await withThrowingTaskGroup(of: Int.self) { group in
        for n in 1...500 { group.addTask { try await pool.number("select \(n)::int") - n } }
        return try await group.reduce(0) { $0 + abs($1) }
      }
      #expect(sum == 0)
      // The server's own workers, such as autovacuum, are sessions too but not client backends. The session of a
      // connection attempt that timed out ends a moment later.
      let isWithinLimit = try await pool.wait(
        until: """
          select count(*) between 1 and 4 from pg_stat_activity
          where datname = current_database() and backend_type = 'client backend'
          """)
      #expect(isWithinLimit)
    }
  }

  @Test func `a new pool opens its minimum of connections at once`() async throws {
    try await withTestDatabase { database in
      try await database.withPool {
        $0.minimumConnections = 3
      } _: { pool in
        let isThere = try await pool.wait(
          until: "select count(*) >= 3 from pg_stat_activity where datname = current_database()")
        #expect(isThere)
      }
    }
  }

  @Test func `a closed pool refuses queries and has no connection left`() async throws {
    try await withTestDatabase { database in
      let pool = try database.pool()
      _ = try await pool.query("select 1")
      await pool.close()
      let error = try await postgresError { try await pool.query("select 1") }
      #expect(error?.kind == .closed)
      try await database.withPool { other in
        let isAlone = try await other.wait(
          until: "select count(*) = 1 from pg_stat_activity where datname = current_database()")
        #expect(isAlone)
      }
    }
  }

  @Test func `closing a pool ends queries that exceed the grace period`() async throws {
    try await withTestDatabase { database in
      let pool = try database.pool { $0.queryTimeout = .seconds(600) }
      let task = Task { try await pool.query("select pg_sleep(600)") }
      try await database.withPool { other in
        let isRunning = try await other.wait(
          until: "select count(*) = 1 from pg_stat_activity where query = 'select pg_sleep(600)'")
        #expect(isRunning)
      }
      await pool.close(grace: .milliseconds(20))
      let error = try await postgresError { try await task.value }
      #expect(error?.isUnavailable == true)
    }
  }

  @Test func `a connection refuses a second task while the first one runs`() async throws {
    try await withPool { pool in
      try await pool.withConnection { connection in
        let slow = Task { try await connection.query("select pg_sleep(603)") }
        let isRunning = try await pool.wait(
          until: "select count(*) = 1 from pg_stat_activity where query = 'select pg_sleep(603)'")
        #expect(isRunning)
        let error = try await postgresError { try await connection.query("select 1") }
        #expect(error?.kind == .misuse("the connection is in use by another task"))
        _ = try await pool.query(
          "select pg_cancel_backend(pid) from pg_stat_activity where query = 'select pg_sleep(603)'")
        let cancelled = try await postgresError { try await slow.value }
        #expect(cancelled?.sqlState == "57014")
      }
    }
  }

  @Test func `five hundred closed connections leave no descriptor open`() async throws {
    try await withTestDatabase { database in
      // Descriptors that the process opens once are open after the first round.
      try await connectAndClose(database, times: 10)
      let sockets = openSockets(to: database.port)
      for _ in 0..<10 { try await connectAndClose(database, times: 50) }
      #expect(openSockets(to: database.port) <= sockets + 8)
    }
  }

  private func connectAndClose(_ database: TestDatabase, times: Int) async throws {
    for _ in 0..<times {
      try await database.withPool {
        $0.maximumConnections = 1
      } _: { pool in
        _ = try await pool.query("select 1")
      }
    }
  }
}

/// How many sockets this process has open to a port of 127.0.0.1.
func openSockets(to port: UInt16) -> Int {
  let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
  return descriptors.compactMap { Int32($0) }.count { descriptor in
    var address = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let status = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
    }
    return status == 0 && address.sin_family == sa_family_t(AF_INET) && address.sin_port == port.bigEndian
  }
}
