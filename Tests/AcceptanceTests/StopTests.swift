import AppStoreSimulator
import Curl
import Foundation
import HTTPTypes
import Postgres
import TestDatabase
import Testing

/// The graceful stop of `receiptd serve`.
@Suite(.timeLimit(.minutes(10))) struct StopTests {
  @Test func `readyz answers 503 during DRAIN_DELAY, while other requests are served`() async throws {
    try await withStage(environment: ["DRAIN_DELAY": "300"]) { stage in
      let purchase = try stage.buy("one", in: stage.stores.old)
      stage.receiptd.signal(SIGTERM)
      while await stage.readiness() != 503 { try await Task.sleep(for: .milliseconds(5)) }
      #expect(try await stage.validate(purchase).status == 200)
      // A second SIGTERM ends the delay at once.
      stage.receiptd.signal(SIGTERM)
      #expect(await stage.receiptd.exitStatus() == 128 + SIGTERM)
    }
  }

  @Test func `a start, a flood of unreadable requests and a planned stop write no line above info`()
    async throws
  {
    try await withStage(environment: ["LOG_LEVEL": "info", "DRAIN_DELAY": "1"]) { stage in
      // The start has created the tables and the key; the next one finds both.
      #expect(await stage.receiptd.stop() == 0)
      let again = try stage.again()
      try await again.receiptd.awaitReady(stage.client)
      let purchase = try stage.buy("one", in: stage.stores.old)
      #expect(try await again.validate(purchase).status == 200)
      let method = try #require(HTTPRequest.Method(String(repeating: "A", count: 33)))
      let refused = try await stage.client.send(CurlRequest(method: method, url: again.url))
      #expect(refused.status == 501)
      again.receiptd.signal(SIGTERM)
      // The client keeps its connections open.
      while await again.readiness() != 503 { try await Task.sleep(for: .milliseconds(5)) }
      #expect(await again.receiptd.exitStatus() == 0)
      let lines = try again.receiptd.logText.split(separator: "\n").map {
        try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
      }
      #expect(lines.count > 2)
      for line in lines { #expect(line["level"] as? String == "info", "\(line)") }
      #expect(!lines.contains { $0["status"] as? Int == 501 })
      #expect(!again.receiptd.logText.contains("another key"))
    }
  }

  @Test
  func `a stopping server answers its running request, refuses later connections, and exits with status 0`()
    async throws
  {
    try await withStage { stage in
      let purchase = try stage.buy("one", in: stage.stores.old)
      try await stage.database.withPool { pool in
        // The validation waits for as long as this transaction holds the table's lock.
        let validation = try await pool.withTransaction { connection in
          _ = try await connection.query("LOCK TABLE subscriptions IN ACCESS EXCLUSIVE MODE")
          let validation = Task { try await stage.validate(purchase).status }
          while try await !stage.isWaitingForLock(connection) { try await Task.sleep(for: .milliseconds(5)) }
          stage.receiptd.signal(SIGTERM)
          while await stage.readiness() != 503 { try await Task.sleep(for: .milliseconds(5)) }
          while (try? await CurlClient.once(stage.url)) != nil { try await Task.sleep(for: .milliseconds(5)) }
          return validation
        }
        #expect(try await validation.value == 200)
      }
      #expect(await stage.receiptd.exitStatus() == 0)
      #expect(stage.receiptd.logText.contains(#""stopped""#))
      #expect(!stage.receiptd.logText.contains("a job did not stop in time"))
    }
  }
}

extension Stage {
  fileprivate var url: String { "http://127.0.0.1:\(receiptd.port)/" }

  /// Whether a transaction of the test's database waits for a lock.
  fileprivate func isWaitingForLock(_ connection: PostgresConnection) async throws -> Bool {
    try await connection.query(
      """
      SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND NOT l.granted) AS is_waiting
      """)[0].decode("is_waiting")
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
