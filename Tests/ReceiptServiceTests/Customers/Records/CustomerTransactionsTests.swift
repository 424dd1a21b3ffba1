import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Subscriptions
import Testing
import Work

@testable import Customers
@testable import ReceiptService
@testable import Support

/// The turns of requests that need one customer's lock.
@Suite(.timeLimit(.minutes(10))) struct CustomerTransactionsTests {
  @Test func `requests that do not get a customer's lock get 503, and use up no connections meanwhile`()
    async throws
  {
    try await withScreenTime { harness in
      let (blocked, other) = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(CustomerStatusWriter.lock([.device("phone")]))
        async let blocked = atOnce(40) { number in
          switch number % 3 {
          case 0: try await harness.launch("phone", account: "a")
          case 1: try await harness.pair("child", to: "phone")
          default: try await harness.children(of: "phone", secret: ScreenTime.secret(1))
          }
        }
        while try await harness.requestsWaitingForLocks(connection) == 0 { await Task.yield() }
        let other = try await harness.launch("tablet", account: "b")
        return (try await blocked, other)
      }
      #expect(other.status == 201)
      #expect(blocked.map(\.status) == Array(repeating: 503, count: 40))
      #expect(blocked.allSatisfy { $0.code == "database_unavailable" })
      #expect(blocked.allSatisfy { $0.headers[.retryAfter] != nil })
      #expect(try await harness.launch("phone", account: "a").status == 201)
    }
  }

  @Test func `many devices of one Apple Account whose lock is not granted use up no connections`()
    async throws
  {
    try await withScreenTime { harness in
      let shown = try harness.store.appTransaction(of: ScreenTime.bundleID, accountID: "a").payload
      let account = try #require(shown.appTransactionId)
      let (blocked, other) = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(
          AdvisoryLock.acquire(.customer, ["\(ScreenTime.bundleID)/\(account)"]))
        async let blocked = atOnce(40) { try await harness.launch("phone-\($0)", account: "a") }
        while try await harness.requestsWaitingForLocks(connection) == 0 { await Task.yield() }
        let other = try await harness.launch("tablet", account: "b")
        return (try await blocked, other)
      }
      #expect(other.status == 201)
      #expect(blocked.map(\.status) == Array(repeating: 503, count: 40))
    }
  }

  @Test func `requests of many customers whose locks are held use up no more than their part of the pool`()
    async throws
  {
    try await withScreenTime { harness in
      let transactions = harness.service.sharedResources.customerTransactions
      let places = CustomerTransactions.places(in: harness.service.pool)
      let phones = (1...40).map { "phone-\($0)" }
      let (blocked, other) = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(CustomerStatusWriter.lock(phones.map { Customer.device($0) }))
        async let blocked = atOnce(40) { try await harness.launch(phones[$0 - 1], account: "a-\($0)") }
        while transactions.waitingCount == 0 { await Task.yield() }
        try await Task.sleep(for: .milliseconds(300))
        #expect(try await harness.requestsWaitingForLocks(connection) <= places)
        let other = try await harness.launch("tablet", account: "b")
        return (try await blocked, other)
      }
      #expect(other.status == 201)
      #expect(blocked.map(\.status) == Array(repeating: 503, count: 40))
      #expect(try await harness.launch("phone-1", account: "a-1").status == 201)
    }
  }

  @Test func `support's requests for a customer whose lock is held take turns, and get 503`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "a")
      let customer = #""customer": "phone", "deviceID": "phone", "bundleID": "\#(ScreenTime.bundleID)""#
      let author = #""by": "ada", "reason": "ticket 812", "force": true"#
      let action = #""id": "phone", "prefer": "grant", "tier": "family", "days": 1"#
      let paths = ["grant", "reset-device-secret", "erase-customer", "extend-trial", "refund-answer"]
      let blocked = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(CustomerStatusWriter.lock([.device("phone")]))
        async let blocked = atOnce(20) { number in
          try await harness.send(
            .post, "/support/v1/\(paths[number % paths.count])",
            json: #"{\#(customer), \#(author), \#(action)}"#,
            token: Harness.supportToken, to: harness.adminAddress)
        }
        while try await harness.requestsWaitingForLocks(connection) == 0 { await Task.yield() }
        #expect(try await harness.requestsWaitingForLocks(connection) <= 1)
        return try await blocked
      }
      #expect(blocked.map(\.status) == Array(repeating: 503, count: 20))
      #expect(blocked.allSatisfy { $0.code == "database_unavailable" })
      #expect(try await harness.count("support_actions") == 0)
      _ = try await harness.desk.grant(
        to: "phone", bundleID: ScreenTime.bundleID, tier: "family", days: 1, by: #require(Harness.ada))
    }
  }

  @Test func `transactions that wait for a row or a table use up no more than their part of the pool`()
    async throws
  {
    try await withHarness { harness in
      let transactions = harness.service.sharedResources.customerTransactions
      let places = CustomerTransactions.places(in: harness.service.pool)
      let refused = try await harness.pool.withTransaction { connection in
        _ = try await connection.query("LOCK TABLE consents IN ACCESS EXCLUSIVE MODE")
        return try await withThrowingTaskGroup(of: Bool.self) { group in
          for number in 1...40 {
            group.addTask {
              do {
                return try await transactions.run(locking: ["phone-\(number)"]) { connection, _ in
                  _ = try await connection.query("SELECT FROM consents")
                  return false
                }
              } catch let error as PostgresError where error.isLockNotGranted {
                return true
              }
            }
          }
          while transactions.waitingCount == 0 { await Task.yield() }
          try await Task.sleep(for: .milliseconds(300))
          let waiting = try await connection.query(
            """
            SELECT count(*) AS waiting FROM pg_locks WHERE locktype = 'relation' AND NOT granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """)[0].decode("waiting", as: Int.self)
          #expect(waiting <= places)
          return try await group.reduce(into: [Bool]()) { $0.append($1) }
        }
      }
      #expect(refused == Array(repeating: true, count: 40))
    }
  }

  @Test func `a user's consents take turns, and get 503 while the user's lock is held`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let blocked = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(CustomerStatusWriter.lock([.user(user)]))
        async let blocked = atOnce(20) { _ in try await harness.consent(true, of: user) }
        while try await harness.requestsWaitingForLocks(connection) == 0 { await Task.yield() }
        #expect(try await harness.requestsWaitingForLocks(connection) <= 1)
        return try await blocked
      }
      #expect(blocked.map(\.status) == Array(repeating: 503, count: 20))
      #expect(try await harness.consent(true, of: user).status == 200)
    }
  }

  @Test
  func `a transaction that does not get one of several locks does not fail those that need another one`()
    async throws
  {
    try await withHarness { harness in
      let transactions = harness.service.sharedResources.customerTransactions
      try await harness.pool.withTransaction { connection in
        _ = try await connection.query(AdvisoryLock.acquire(.customer, ["account"]))
        let both = Task { try await transactions.run(locking: ["phone", "account"]) { _, _ in true } }
        while try await harness.requestsWaitingForLocks(connection) == 0 { await Task.yield() }
        let isDone = try await transactions.run(locking: ["phone"]) { _, _ in true }
        #expect(isDone)
        await #expect(throws: PostgresError.self) { try await both.value }
      }
    }
  }

  @Test func `a request is refused while 128 others of the same customer wait for their turn`() async throws {
    try await withHarness { harness in
      let transactions = harness.service.sharedResources.customerTransactions
      let (began, first) = AsyncStream<Void>.makeStream()
      let (end, ending) = AsyncStream<Void>.makeStream()
      try await withThrowingTaskGroup(of: Bool.self) { group in
        group.addTask {
          try await transactions.run(locking: ["phone"], []) { _, _ in
            first.finish()
            for await _ in end {}
            return true
          }
        }
        for await _ in began {}
        for _ in 0...CustomerTransactions.maximumWaiting {
          group.addTask {
            do {
              return try await transactions.run(locking: ["phone"], []) { _, _ in true }
            } catch let problem as Problem where problem.status == .tooManyRequests {
              return false
            }
          }
        }
        // Only the refused request ends before the first one does.
        #expect(try await group.next() == false)
        ending.finish()
        for try await isDone in group { #expect(isDone) }
      }
    }
  }
}
