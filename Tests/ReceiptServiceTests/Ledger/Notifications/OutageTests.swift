import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import TestDatabase
import Testing

import enum HTTP.RFC3339

@testable import Ledger
@testable import ReceiptService

@Suite struct OutageTests {
  @Test func `the webhook answers 503 while the database is stopped, and 200 after its restart`()
    async throws
  {
    let postgres = try await PrivatePostgres.start()
    let harness = try await Harness(databaseURL: postgres.uri, configuration: TestApps.json)
    do {
      try await harness.service.migrator.apply()
      let before = try harness.buy()
      #expect(try await harness.notify(before.notification.signedPayload).status == 200)

      try await postgres.down()
      let user = UUID()
      let token = try await harness.token(for: user)
      let during = try harness.buy(token: user)
      for _ in 0..<3 {
        // A client timeout would fail this test: the response must not wait for a database
        // that is unavailable.
        let refused = try await harness.notify(during.notification.signedPayload)
        #expect(refused.status == 503)
        #expect(refused.code == "database_unavailable")
        #expect(refused.headers[.retryAfter] != nil)
      }
      #expect(try await harness.profile(of: user, token: token).code == "database_unavailable")
      let validated = try await harness.validate(["signedTransaction": during.signedTransaction])
      #expect(validated.code == "database_unavailable")
      let told = try await harness.send(
        .post, "/api/v1/events",
        json: """
          {"bundleID": "\(TestApps.family)", "customerID": "phone",
           "events": [{"name": "paywall_shown", "at": "\(RFC3339.string(from: harness.clock.now))"}]}
          """)
      #expect(told.code == "database_unavailable")
      let ready = try await harness.send(.get, "/readyz", to: harness.adminAddress)
      #expect(ready.status == 503)
      let alive = try await harness.send(.get, "/healthz", to: harness.adminAddress)
      #expect(alive.status == 200)

      try await postgres.up()
      try await harness.awaitReady()
      #expect(try await harness.notify(during.notification.signedPayload).status == 200)
      #expect(try await harness.row(of: during.originalTransactionID).userID == user)
      #expect(try await harness.count("notifications") == 2)
    } catch {
      await harness.stop()
      try? await postgres.remove()
      throw error
    }
    await harness.stop()
    try await postgres.remove()
  }

  @Test(arguments: ["57P05", "25P04", "57P04", "XX000"])
  func `a notification survives the end of its database session, whatever the SQLSTATE`(sqlState: String)
    async throws
  {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let proxy = try Proxy(to: database.port)
      let harness = try await Harness(
        databaseURL: database.uri(port: proxy.port), configuration: TestApps.json,
        databaseTimeout: .seconds(60))
      #expect(try await harness.notify(try harness.buy().notification.signedPayload).status == 200)
      let bought = try harness.buy()
      proxy.end(sqlState: sqlState)
      #expect(try await harness.notify(bought.notification.signedPayload).status == 200)
      #expect(try await harness.row(of: bought.originalTransactionID).status == "active")
      let unprocessed = try await harness.pool.query(
        "SELECT count(*) FROM notifications WHERE processed_at IS NULL")[0].decode("count", as: Int.self)
      #expect(unprocessed == 0)
      await harness.stop()
      proxy.stop()
    }
  }

  @Test func `a notification with response 200 is stored, whenever the database connection is cut`()
    async throws
  {
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      let proxy = try Proxy(to: database.port)
      let harness = try await Harness(
        databaseURL: database.uri(port: proxy.port), configuration: TestApps.json)
      let payloads = try (0..<200).map { _ in try harness.buy().notification }
      // Cut connections until all notifications are delivered; the store retries each a few times.
      let cutter = Task {
        for _ in 0..<20 {
          proxy.cut()
          try? await Task.sleep(for: .milliseconds(50))
        }
      }
      let kept = await withTaskGroup(of: UUID?.self) { group in
        for payload in payloads {
          group.addTask {
            for _ in 0..<50 {
              let answer = try? await harness.notify(payload.signedPayload)
              if answer?.status == 200 { return UUID(uuidString: payload.uuid) }
              try? await Task.sleep(for: .milliseconds(100))
            }
            return nil
          }
        }
        return await group.reduce(into: [UUID]()) { kept, uuid in if let uuid { kept.append(uuid) } }
      }
      await cutter.value
      #expect(kept.count == payloads.count)
      let pool = try database.pool()
      let there = try await pool.query(
        "SELECT count(*) FROM notifications WHERE notification_uuid = ANY(\(kept))")[0].decode(
          0, as: Int.self)
      #expect(there == kept.count)
      await pool.close()
      await harness.stop()
      proxy.stop()
    }
  }
}

extension Harness {
  /// Waits until the service is ready.
  func awaitReady() async throws {
    let deadline = ContinuousClock.now + .seconds(120)
    while try await send(.get, "/readyz", to: adminAddress).status != 200 {
      try #require(.now < deadline, "not ready within two minutes")
      try await Task.sleep(for: .milliseconds(50))
    }
  }
}
