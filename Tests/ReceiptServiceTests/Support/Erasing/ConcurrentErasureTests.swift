import Actions
import AppStoreSimulator
import Deliveries
import Foundation
import Postgres
import Subscriptions
import Synchronization
import Testing

@testable import Customers
@testable import Ledger
@testable import ReceiptService
@testable import Support

/// Erasures beside other work on the same customer.
@Suite(.timeLimit(.minutes(2))) struct ConcurrentErasureTests {
  @Test func `a user and a device with one id are erased one by one, each with its app`() async throws {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let id = user.uuidString.lowercased()
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.grant(
        to: id, bundleID: TestApps.family, tier: "individual", days: 9, by: ada, isForced: true)
      let letter = try #require(Harness.makeAuthor("ada", "asked by letter"))
      #expect(
        try await refusal { _ = try await harness.desk.eraseCustomer(id, by: letter, isForced: true) }
          == .invalid)
      #expect(try await harness.count("grants WHERE revoked_at IS NULL AND device_id = '\(id)'") == 1)
      #expect(try await harness.actions().map(\.action) == ["grant"])
      for app in [TestApps.family, TestApps.climbing] {
        _ = try await harness.desk.eraseCustomer(id, bundleID: app, by: letter, isForced: true)
        #expect(try await harness.isPremium(user) == (app == TestApps.family))
      }
      #expect(try await harness.count("support_actions WHERE action = 'erase-customer'") == 2)
      #expect(try await harness.tables(with: id) == [])
    }
  }

  @Test func `erasures at once of customers whom the grants of each other name are all done`() async throws {
    try await withHarness { harness in
      for _ in 0..<4 {
        let users = (0..<4).map { _ in UUID() }
        for user in users {
          try await harness.arrives(harness.buy(token: user))
          for other in users where other != user {
            let author = try #require(Harness.makeAuthor("ada", "as \(other.uuidString.lowercased()) asked"))
            _ = try await harness.desk.grant(
              to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 3, by: author,
              isForced: true)
          }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
          for user in users { group.addTask { _ = try await harness.erase(user.uuidString) } }
          try await group.waitForAll()
        }
        for user in users { #expect(try await harness.tables(with: user.uuidString) == []) }
      }
    }
  }

  @Test func `of two erasures at once one is done, and the other finds no customer`() async throws {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let refusals = try await harness.queuing(behind: .user(user)) {
        [
          { try await refusal { try await harness.erase(user.uuidString) } },
          { try await refusal { try await harness.erase(user.uuidString) } },
        ]
      }
      #expect(refusals.count == 2)
      #expect(refusals.filter { $0 == nil }.count == 1)
      #expect(refusals.contains(.notFound))
      #expect(try await harness.actions().map(\.action) == ["erase-customer"])
    }
  }

  @Test func `a device that shares a purchase stays erased although another device proves it meanwhile`()
    async throws
  {
    try await withShippedApps { harness in
      let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID)
      for device in ["phone", "watch"] { _ = try await harness.device(device, shows: bought) }
      let refusals = try await harness.queuing(behind: .device("watch")) {
        [
          { try await refusal { try await harness.erase("watch") } },
          {
            _ = try await harness.validate([
              "signedTransaction": bought.signedTransaction, "deviceID": "phone",
            ])
            return nil
          },
        ]
      }
      #expect(refusals == [nil, nil])
      #expect(try await harness.tables(with: "watch") == [])
    }
  }

  @Test
  func
    `a device stays erased although another one takes its place in the trial of an erased account meanwhile`()
    async throws
  {
    try await withShippedApps { harness in
      // The device that began the trial is erased, so that the account has another name in the trial.
      for number in 0...9 {
        #expect(
          [200, 201].contains(try await harness.launch("phone-\(number)", account: "account-1").status))
      }
      try await harness.erase("phone-0")
      #expect(try await harness.launch("tablet-10", account: "account-1").status == 200)
      // The next one takes the place of the device that joined longest ago.
      let (erasing, joining) = try await harness.pool.withTransaction { connection in
        _ = try await connection.query("LOCK TABLE consents IN EXCLUSIVE MODE")
        let erasing = Task { try await harness.erase("phone-1") }
        try await harness.untilWaiting(1, for: "consents")
        let joining = Task { try await harness.launch("tablet-11", account: "account-1").status }
        try await harness.untilWaiting(2)
        return (erasing, joining)
      }
      _ = try await erasing.value
      #expect([200, 409, 503].contains(try await joining.value))
      // The outbox has the row that tells CloudKit of the erasure.
      let tables = try await harness.tables(with: "phone-1", except: ["outbox"])
      #expect(tables == [])
    }
  }

  @Test func `a grant that waits for an erasure finds no customer`() async throws {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let refusals = try await harness.queuing(behind: .user(user)) {
        [
          { try await refusal { try await harness.erase(user.uuidString) } },
          {
            try await refusal {
              _ = try await harness.desk.grant(
                to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 3,
                by: #require(Harness.ada))
            }
          },
        ]
      }
      #expect(refusals == [nil, .notFound])
      #expect(try await harness.tables(with: user.uuidString) == [])
    }
  }

  @Test func `a transfer that waits for the erasure of its target is refused`() async throws {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let (other, bought) = try await harness.customer()
      let refusals = try await harness.queuing(behind: .user(user)) {
        [
          { try await refusal { try await harness.erase(user.uuidString) } },
          {
            try await refusal {
              _ = try await harness.desk.transfer(
                bought.originalTransactionID, to: user.uuidString, by: #require(Harness.ada))
            }
          },
        ]
      }
      #expect(refusals == [nil, .notFound])
      #expect(try await harness.row(of: bought.originalTransactionID).userID == other)
      #expect(try await harness.tables(with: user.uuidString) == [])
    }
  }

  @Test(arguments: [false, true])
  func `erasures that wait for rows hold a third of the connections at most`(isDryRun: Bool) async throws {
    try await withHarness { harness in
      let places = CustomerTransactions.places(in: harness.service.pool)
      let lead = try await harness.add("lea", .lead)
      // The client opens further connections to a server once it knows its version of HTTP.
      _ = try await harness.support("people", token: lead)
      var users: [UUID] = []
      for _ in 0..<(places + 3) { users.append(try await harness.customer().0) }
      let waiting = harness.service.sharedResources.supportPlaces
      let erasures = try await harness.pool.withTransaction { connection in
        _ = try await connection.query("LOCK TABLE support_actions IN SHARE MODE")
        let erasures = users.map { user in
          Task {
            try await harness.support(
              "erase-customer",
              ["customer": user.uuidString, "force": true, "dryRun": isDryRun], token: lead
            ).status
          }
        }
        try await harness.untilWaiting(places)
        while waiting.waitingCount < 3 { try await Task.sleep(for: .milliseconds(5)) }
        #expect(try await harness.waitingSessions() == places)
        return erasures
      }
      for erasure in erasures { #expect(try await erasure.value == 200) }
      #expect(
        try await harness.count("support_actions WHERE action = 'erase-customer'")
          == (isDryRun ? 0 : users.count))
    }
  }

  @Test func `an event that is about to be sent waits for the erasure of its customer`() async throws {
    try await withEvents { harness, _ in
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      // The purchase had no owner when the event was written.
      try await harness.arrives(bought)
      _ = try await harness.device("phone-of-ada", shows: bought)
      let event = try await harness.value("SELECT id AS value FROM lifecycle_events", as: UUID.self)
      let (pool, now) = (harness.pool, harness.clock.now)
      let (erasing, sending) = try await pool.withTransaction { connection in
        _ = try await connection.query("LOCK TABLE support_actions IN SHARE MODE")
        let erasing = Task { try await harness.erase("phone-of-ada") }
        try await harness.untilWaiting(1)
        let sending = Task {
          try await pool.withTransaction { connection in
            _ = try await connection.pipeline(LifecycleEventRows.fix([event], at: now))
          }
        }
        try await harness.untilWaiting(2)
        return (erasing, sending)
      }
      _ = try await erasing.value
      try await sending.value
      #expect(
        try await harness.count("lifecycle_events WHERE first_sent_at IS NULL AND erased_at IS NOT NULL") == 1
      )
      #expect(try await harness.tables(with: "phone-of-ada", except: ["outbox"]) == [])
    }
  }

  @Test
  func
    `the record of an erasure has the time of its end, so requests that were refused during it lose the ids`()
    async throws
  {
    try await withHarness { harness in
      let (user, _) = try await harness.customer()
      let token = try await harness.token(for: user)
      let log = harness.service.sharedResources.refusedAttempts
      // The erasure has begun, and scans a large table for some minutes.
      let erasing = try await harness.pool.withTransaction { connection in
        _ = try await connection.query("LOCK TABLE refused_attempts IN ROW EXCLUSIVE MODE")
        let erasing = Task { try await harness.erase(user.uuidString) }
        try await harness.untilWaiting(1)
        harness.clock.advance(seconds: 120)
        #expect(try await harness.validate(["signedTransaction": "a.b.c"], token: token).status >= 400)
        return erasing
      }
      _ = try await erasing.value
      try await log.flush()
      #expect(try await harness.count("refused_attempts") == 1)
      #expect(try await harness.tables(with: user.uuidString) == [])
    }
  }

  @Test func `a refused request that waits for its write does not bring an erased customer back`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let log = harness.service.sharedResources.refusedAttempts
      let token = try await harness.token(for: user)
      #expect(try await harness.validate(["signedTransaction": "a.b.c"], token: token).status >= 400)
      try await harness.erase(user.uuidString)
      try await log.flush()
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await harness.count("refused_attempts") == 1)
      // Later requests are of a new customer.
      harness.clock.advance(days: 0.1)
      let later = try await harness.token(for: user)
      #expect(try await harness.validate(["signedTransaction": "a.b.c"], token: later).status >= 400)
      try await log.flush()
      #expect(try await harness.tables(with: user.uuidString) == ["refused_attempts"])
      #expect(try await harness.row(of: bought.originalTransactionID).userID == nil)
    }
  }

  @Test func `refused requests that are written during an erasure wait for it`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let token = try await harness.token(for: user)
      #expect(try await harness.validate(["signedTransaction": "a.b.c"], token: token).status >= 400)
      let log = harness.service.sharedResources.refusedAttempts
      // The erasure has deleted the refused requests, and cannot go on.
      let (erasing, writing) = try await harness.pool.withTransaction { connection in
        _ = try await connection.query("LOCK TABLE support_actions IN SHARE MODE")
        let erasing = Task { try await harness.erase(user.uuidString) }
        try await harness.untilWaiting(1)
        let writing = Task { try await log.flush() }
        try await harness.untilWaiting(2)
        return (erasing, writing)
      }
      _ = try await erasing.value
      try await writing.value
      #expect(try await harness.tables(with: user.uuidString) == [])
      #expect(try await harness.count("refused_attempts") == 1)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == nil)
    }
  }
}

/// How many actions have ended.
private final class Ended: Sendable {
  let count = Mutex(0)
}

extension Harness {
  /// Starts actions one after the other while another session has the customer's lock, so that they get it in this
  /// order.
  fileprivate func queuing(
    behind customer: Customer,
    _ actions: () -> [@Sendable () async throws -> SupportRefusal.Kind?]
  ) async throws -> [SupportRefusal.Kind?] {
    let actions = actions()
    let tasks = try await pool.withTransaction { connection in
      _ = try await connection.query(CustomerStatusWriter.lock([customer]))
      var tasks: [Task<SupportRefusal.Kind?, any Error>] = []
      let ended = Ended()
      for action in actions {
        tasks.append(
          Task {
            defer { ended.count.withLock { $0 += 1 } }
            return try await action()
          })
        // In this process they wait for their turn, and the ledger's entries in the database: those for a short time.
        let transactions = service.sharedResources.customerTransactions
        while try await waitingSessions() + transactions.waitingCount + ended.count.withLock({ $0 })
          < tasks.count
        {
          try await Task.sleep(for: .milliseconds(10))
        }
      }
      return tasks
    }
    var results: [SupportRefusal.Kind?] = []
    for task in tasks { results.append(try await task.value) }
    return results
  }
}
