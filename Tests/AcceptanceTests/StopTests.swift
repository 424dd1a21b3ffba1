import AppStoreSimulator
import Curl
import Foundation
import Postgres
import TestDatabase
import Testing

/// `receiptd serve` is told to stop.
@Suite(.timeLimit(.minutes(10))) struct StopTests {
  @Test func `who is told to stop says so before it stops, and goes on meanwhile`() async throws {
    try await withStage(environment: ["DRAIN_DELAY": "300"]) { stage in
      let purchase = try stage.buy("one", in: stage.stores.old)
      stage.receiptd.signal(SIGTERM)
      while await stage.readiness() != 503 { try await Task.sleep(for: .milliseconds(5)) }
      #expect(try await stage.validate(purchase).status == 200)
      // Whoever says it twice does not want to wait.
      stage.receiptd.signal(SIGTERM)
      #expect(await stage.receiptd.exitStatus() == 128 + SIGTERM)
    }
  }

  @Test func `what is under way gets its answer, whoever comes later is refused, and all ends well`()
    async throws
  {
    try await withStage { stage in
      let purchase = try stage.buy("one", in: stage.stores.old)
      try await stage.database.withPool { pool in
        // For as long as somebody else has the table, a validation is under way.
        let start = ContinuousClock.now
        let validation = try await pool.withTransaction { connection in
          _ = try await connection.query("LOCK TABLE subscriptions IN ACCESS EXCLUSIVE MODE")
          let validation = Task { try await stage.validate(purchase).status }
          while try await !stage.isWaitingForLock(connection) { try await Task.sleep(for: .milliseconds(5)) }
          stage.receiptd.signal(SIGTERM)
          while await stage.readiness() != 503 { try await Task.sleep(for: .milliseconds(5)) }
          while (try? await CurlClient.once(stage.url)) != nil { try await Task.sleep(for: .milliseconds(5)) }
          return validation
        }
        // What the database does not answer for ten seconds is given up, which a slow machine may see.
        let isGivenUp = .now - start > .seconds(9)
        let status = try await validation.value
        #expect(status == 200 || (isGivenUp && status == 503))
      }
      #expect(await stage.receiptd.exitStatus() == 0)
      #expect(stage.receiptd.logText.contains(#""stopped""#))
      #expect(!stage.receiptd.logText.contains("did not end when it was told to"))
    }
  }
}

extension Stage {
  fileprivate var url: String { "http://127.0.0.1:\(receiptd.port)/" }

  /// Whether somebody stands before a lock that another one holds.
  fileprivate func isWaitingForLock(_ connection: PostgresConnection) async throws -> Bool {
    try await connection.query(
      """
      SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND NOT l.granted)
      """)[0].decode(0)
  }
}

extension CurlClient {
  /// A request on a connection of its own.
  fileprivate static func once(_ url: String) async throws -> Int {
    let client = CurlClient()
    let answer = await Result { try await client.send(CurlRequest(url: url)).status }
    await client.shutDown()
    return try answer.get()
  }
}

extension Result where Failure == any Error {
  fileprivate init(_ body: () async throws -> Success) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}
