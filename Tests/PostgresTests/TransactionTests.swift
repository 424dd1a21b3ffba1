import Testing

@testable import Postgres

struct TransactionTests {
  private struct Unwanted: Error {}

  private func count(_ pool: PostgresPool) async throws -> Int {
    try await pool.number("select count(*) from t")
  }

  private func withTable(_ body: nonisolated(nonsending) (PostgresPool) async throws -> Void) async throws {
    try await withPool {
      $0.maximumConnections = 2
    } _: { pool in
      _ = try await pool.query("create table t (n int unique deferrable initially deferred)")
      try await body(pool)
    }
  }

  @Test func `a transaction that returns is committed`() async throws {
    try await withTable { pool in
      let result = try await pool.withTransaction { connection in
        _ = try await connection.query("insert into t values (1)")
        let others = try await count(pool)
        #expect(others == 0)
        return "done"
      }
      #expect(result == "done")
      let after = try await count(pool)
      #expect(after == 1)
    }
  }

  @Test func `statements sent with COMMIT are committed in one round trip`() async throws {
    try await withTable { pool in
      let rows = try await pool.withTransaction { connection in
        _ = try await connection.query("insert into t values (1)")
        let rows = try await connection.commit(after: ["insert into t values (2)", "select count(*) from t"])
        let others = try await count(pool)
        #expect(others == 2)
        return try rows[1][0].decode(0, as: Int.self)
      }
      #expect(rows == 2)
      // The connection can begin another transaction.
      await #expect(throws: Unwanted.self) {
        try await pool.withTransaction { connection in
          _ = try await connection.query("insert into t values (3)")
          throw Unwanted()
        }
      }
      let after = try await count(pool)
      #expect(after == 2)
    }
  }

  @Test func `a failed statement sent with COMMIT commits nothing`() async throws {
    try await withTable { pool in
      let failure = await #expect(throws: PostgresError.self) {
        try await pool.withTransaction { connection in
          _ = try await connection.query("insert into t values (1)")
          return try await connection.commit(after: ["insert into t values (2)", "select 1 / 0"])
        }
      }
      #expect(failure?.sqlState == "22012")
      #expect(failure?.endedTransaction == false)
      let after = try await count(pool)
      #expect(after == 0)
    }
  }

  @Test func `a failed commit reports that its transaction has ended`() async throws {
    try await withTable { pool in
      let failure = await #expect(throws: PostgresError.self) {
        try await pool.withTransaction { connection in
          try await connection.savepoint { connection in
            try await connection.commit(after: ["insert into t values (1), (1)"])
          }
        }
      }
      #expect(failure?.sqlState == "23505")
      #expect(failure?.endedTransaction == true)
      let after = try await count(pool)
      #expect(after == 0)
    }
  }

  @Test func `a failed statement sent with COMMIT in a savepoint leaves the transaction open`() async throws {
    try await withTable { pool in
      try await pool.withTransaction { connection in
        _ = try await connection.query("insert into t values (1)")
        await #expect(throws: PostgresError.self) {
          try await connection.savepoint { connection in
            try await connection.commit(after: ["insert into t values (2)", "select 1 / 0"])
          }
        }
        #expect(!connection.isCommitted)
        _ = try await connection.query("insert into t values (3)")
      }
      let after = try await pool.number("select sum(n)::bigint from t")
      #expect(after == 4)
    }
  }

  @Test func `a failed transaction cannot be committed`() async throws {
    try await withTable { pool in
      await #expect(throws: PostgresError.self) {
        try await pool.withTransaction { connection in
          _ = try await connection.query("insert into t values (1)")
          _ = try? await connection.query("select 1 / 0")
          return try await connection.commit(after: [])
        }
      }
      let after = try await count(pool)
      #expect(after == 0)
    }
  }

  @Test func `a transaction that throws is rolled back`() async throws {
    try await withTable { pool in
      await #expect(throws: Unwanted.self) {
        try await pool.withTransaction { connection in
          _ = try await connection.query("insert into t values (1)")
          throw Unwanted()
        }
      }
      let after = try await count(pool)
      #expect(after == 0)
    }
  }

  @Test func `a transaction without statements leaves no session in a transaction`() async throws {
    try await withTable { pool in
      let value = try await pool.withTransaction { _ in 5 }
      #expect(value == 5)
      await #expect(throws: Unwanted.self) { try await pool.withTransaction { _ in throw Unwanted() } }
      let open = try await pool.number(
        "select count(*) from pg_stat_activity where state like 'idle in%' and datname = current_database()")
      #expect(open == 0)
    }
  }

  @Test func `a transaction that sends nothing until its timeout loses its session and its locks`()
    async throws
  {
    try await withPool {
      $0.maximumConnections = 2
      $0.queryTimeout = .seconds(1)
    } _: { pool in
      let error = try await postgresError {
        try await pool.withTransaction { connection in
          _ = try await connection.query("select pg_advisory_xact_lock(7)")
          // No statement arrives, as when the network has lost the connection.
          let isFree = try await pool.wait(until: "select pg_try_advisory_xact_lock(7)")
          #expect(isFree)
          _ = try await connection.query("select 1")
        }
      }
      #expect(error?.isUnavailable == true)
    }
  }

  @Test func `a transaction that swallows an error throws and is rolled back`() async throws {
    try await withTable { pool in
      let error = try await postgresError {
        try await pool.withTransaction { connection in
          _ = try await connection.query("insert into t values (1)")
          _ = try? await connection.query("select 1 / 0")
        }
      }
      #expect(error != nil)
      let after = try await count(pool)
      #expect(after == 0)
    }
  }

  @Test func `a constraint violation at COMMIT is thrown with its SQLSTATE`() async throws {
    try await withTable { pool in
      let error = try await postgresError {
        try await pool.withTransaction { connection in
          _ = try await connection.query("insert into t values (1), (1)")
        }
      }
      #expect(error?.kind == .server(sqlState: "23505"))
      let after = try await count(pool)
      #expect(after == 0)
    }
  }

  @Test func `a failed savepoint is rolled back, and its transaction continues`() async throws {
    try await withTable { pool in
      try await pool.withTransaction { connection in
        _ = try await connection.query("insert into t values (1)")
        let error = try await postgresError {
          try await connection.savepoint { connection in
            _ = try await connection.query("insert into t values (2)")
            _ = try await connection.query("select 1 / 0")
          }
        }
        #expect(error?.sqlState == "22012")
        try await connection.savepoint { connection in
          _ = try await connection.query("insert into t values (3)")
        }
        _ = try await connection.query("insert into t values (4)")
      }
      let rows = try await pool.query("select n from t order by n")
      #expect(try rows.map { try $0.decode("n", as: Int.self) } == [1, 3, 4])
    }
  }

  @Test func `savepoints nest, and a transaction may begin with a savepoint`() async throws {
    try await withTable { pool in
      try await pool.withTransaction { connection in
        try await connection.savepoint { connection in
          try await connection.savepoint { _ in }
          _ = try? await connection.savepoint { connection in
            _ = try await connection.query("insert into t values (1)")
            throw Unwanted()
          }
          _ = try await connection.query("insert into t values (2)")
        }
      }
      let rows = try await pool.query("select n from t")
      #expect(try rows.map { try $0.decode("n", as: Int.self) } == [2])
    }
  }

  /// A statement after a lock was granted must see what the lock's last holder committed.
  @Test(arguments: ["repeatable read", "serializable"])
  func `a transaction reads what others commit meanwhile, whatever the session's level is`(
    level: String
  ) async throws {
    try await withTable { pool in
      let counts = try await pool.withConnection { connection in
        _ = try await connection.query("select set_config('default_transaction_isolation', \(level), false)")
        return try await connection.transaction { connection in
          let before = try await connection.query("select count(*) from t")[0].decode(0, as: Int.self)
          _ = try await pool.query("insert into t values (1)")
          let after = try await connection.query("select count(*) from t")[0].decode(0, as: Int.self)
          return [before, after]
        }
      }
      #expect(counts == [0, 1])
    }
  }

  @Test func `a transaction that a lease leaves open is rolled back`() async throws {
    try await withTable { pool in
      try await pool.withConnection { connection in
        _ = try await connection.query("begin")
        _ = try await connection.query("insert into t values (1)")
      }
      let isRolledBack = try await pool.wait(
        until:
          "select count(*) = 0 from pg_stat_activity where state like 'idle in%' and datname = current_database()"
      )
      #expect(isRolledBack)
      let after = try await count(pool)
      #expect(after == 0)
    }
  }

  @Test func `a cancelled transaction is rolled back`() async throws {
    try await withTable { pool in
      let task = Task {
        try await pool.withTransaction { connection in
          _ = try await connection.query("insert into t values (1)")
          _ = try await connection.query("select pg_sleep(600)")
        }
      }
      let isSleeping = try await pool.wait(
        until:
          "select count(*) = 1 from pg_stat_activity where query like 'select pg_sleep(600)%' and state = 'active'"
      )
      #expect(isSleeping)
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
      let isGone = try await pool.wait(
        until:
          "select count(*) = 0 from pg_stat_activity where query like 'select pg_sleep(600)%' and state = 'active'"
      )
      #expect(isGone)
      let after = try await count(pool)
      #expect(after == 0)
    }
  }

  @Test func `a script runs its statements and returns the notices`() async throws {
    try await withTable { pool in
      let notices = try await pool.withConnection { connection in
        try await connection.execute(
          script:
            "do $$ begin raise notice 'one'; raise warning 'two'; end $$; insert into t values (1); select 1;"
        )
      }
      #expect(notices.map(\.message) == ["one", "two"])
      #expect(notices.map(\.severity) == ["NOTICE", "WARNING"])
      let error = try await postgresError {
        try await pool.withConnection {
          try await $0.execute(script: "insert into t values (2); select 1 / 0;")
        }
      }
      #expect(error?.sqlState == "22012")
      let after = try await count(pool)
      #expect(after == 1)
    }
  }
}
