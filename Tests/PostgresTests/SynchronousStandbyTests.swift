import Postgres
import TestDatabase
import Testing

/// A primary that waits for a synchronous standby which does not respond.
@Suite(.timeLimit(.minutes(10))) struct SynchronousStandbyTests {
  @Test("a commit whose wait for the standby is cancelled has an unknown outcome", arguments: [false, true])
  func cancelledWait(travelsWithStatements: Bool) async throws {
    let server = try await PrivatePostgres.start(
      options: "-c fsync=off -c synchronous_standby_names=nobody")
    let alone = TestDatabase(uri: server.uri + "?options=-c%20synchronous_commit%3Dlocal")
    do {
      try await alone.withPool { pool in
        _ = try await pool.query("create table t (n int)")
        try await TestDatabase(uri: server.uri).withPool({ $0.queryTimeout = .seconds(60) }) { waiting in
          async let commit = postgresError {
            try await waiting.withTransaction { connection in
              let insert: Query = "insert into t values (1)"
              _ =
                travelsWithStatements
                ? try await connection.commit(after: [insert]) : [try await connection.query(insert)]
            }
          }
          let isCancelled = try await pool.wait(
            until:
              "select coalesce(bool_or(pg_cancel_backend(pid)), false) from pg_stat_activity where wait_event = 'SyncRep'"
          )
          #expect(isCancelled)
          guard case .outcomeUnknown = try await commit?.kind else {
            Issue.record("it was taken for a commit")
            return
          }
        }
        // The primary did commit the row.
        #expect(try await pool.number("select count(*) from t") == 1)
      }
    } catch {
      try await server.remove()
      throw error
    }
    try await server.remove()
  }
}
