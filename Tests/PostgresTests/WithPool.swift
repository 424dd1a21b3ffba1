import Postgres
import TestDatabase

/// Runs `body` with a pool for a database of its own.
nonisolated(nonsending) func withPool<R>(
  _ configure: (inout PostgresConfiguration) -> Void = { _ in },
  _ body: nonisolated(nonsending) (PostgresPool) async throws -> R
) async throws -> R {
  try await withTestDatabase { database in
    try await database.withPool(configure, body)
  }
}

/// The error that `body` throws, if it is one of the pool's.
nonisolated(nonsending) func postgresError<R>(
  _ body: nonisolated(nonsending) () async throws -> R
) async throws -> PostgresError? {
  do {
    _ = try await body()
    return nil
  } catch let error as PostgresError {
    return error
  }
}

extension PostgresPool {
  /// The single number of a query's result.
  nonisolated(nonsending) func number(_ query: Query) async throws -> Int {
    try await self.query(query)[0].decode(0, as: Int.self)
  }

  /// Opens this many connections, which are idle afterwards.
  nonisolated(nonsending) func warm(_ count: Int) async throws {
    while status.idle < count {
      try await withThrowingTaskGroup { group in
        for _ in 0..<count { group.addTask { _ = try await self.query("select pg_sleep(0.05)") } }
        try await group.waitForAll()
      }
    }
  }

  /// Repeats the query until it returns true; false after two minutes.
  nonisolated(nonsending) func wait(until query: Query) async throws -> Bool {
    let end = ContinuousClock.now + .seconds(120)
    while ContinuousClock.now < end {
      if try await self.query(query)[0].decode(0, as: Bool.self) { return true }
      try await Task.sleep(for: .milliseconds(5))
    }
    return false
  }
}
