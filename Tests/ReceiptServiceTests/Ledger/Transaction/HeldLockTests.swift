import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Synchronization
import Testing
import Work

@testable import Customers
@testable import Ledger
@testable import Proofs
@testable import ReceiptService

/// Another session holds a lock that a commit of the ledger needs. It holds the lock until every response has arrived,
/// because the requests run inside of its transaction.
@Suite(.timeLimit(.minutes(10))) struct HeldLockTests {
  /// The lock that the other session holds for each of some customers.
  enum Held: CaseIterable, Sendable {
    case subscriptionRow
    case purchaseKey
    case customerKey
    /// The profile row, which PostgreSQL locks for the app's own foreign key.
    case referencedProfile
  }

  @Test(arguments: Held.allCases)
  func `a lock that is not granted fails only its own entries, and a retry after the release succeeds`(
    held: Held
  ) async throws {
    try await withHarness { harness in
      let customers = try await harness.customers(4)
      if held == .referencedProfile {
        _ = try await harness.pool.query(
          "ALTER TABLE subscriptions ADD FOREIGN KEY (user_id) REFERENCES profiles (id)")
      }
      let blocked = try await harness.blockedRequests(held, of: customers)
      let unrelated = try harness.unrelatedRequests(24)
      let answers = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(held.query(customers))
        return try await harness.answers(to: blocked, among: unrelated)
      }
      #expect(answers.unrelated.map(\.status) == Array(repeating: 200, count: unrelated.count))
      #expect(answers.blocked.map(\.status) == Array(repeating: 503, count: blocked.count))
      #expect(answers.blocked.allSatisfy { $0.code == "database_unavailable" })
      #expect(answers.blocked.allSatisfy { $0.headers[.retryAfter] != nil })
      for request in blocked { #expect(try await request().status == 200) }
    }
  }

  @Test func `profiles that another session locks delay no response and are written after their release`()
    async throws
  {
    try await withHarness { harness in
      let customers = try await harness.customers(4)
      harness.clock.advance(seconds: 60)
      let refunds = try customers.map {
        try harness.store.perform(.refundLatest, on: $0.bought.originalTransactionID).notification
          .signedPayload
      }
      let unrelated = try harness.unrelatedRequests(24)
      let answers = try await harness.pool.withTransaction { connection in
        _ = try await connection.query(
          "SELECT 1 FROM profiles WHERE id = ANY(\(customers.map(\.user))) FOR UPDATE")
        return try await harness.answers(
          to: refunds.map { refund in { try await harness.notify(refund) } }, among: unrelated)
      }
      #expect((answers.unrelated + answers.blocked).allSatisfy { $0.status == 200 })
      harness.clock.advance(seconds: 60)
      try await harness.service.customers.profileRetry.run()
      for (user, _) in customers { #expect(try await harness.profileRow(of: user)?.product == nil) }
    }
  }

  @Test func `entries of a batch that wait for a lock complete after all other entries of the batch`()
    async throws
  {
    try await withHarness { harness in
      let customers = try await harness.customers(5)
      let intake = harness.service.notifications
      let blocked = try customers.map { customer in
        try intake.entry(
          for: harness.store.perform(.setAutoRenew(false), on: customer.bought.originalTransactionID)
            .notification.signedPayload)
      }
      let unrelated = try (0..<7).map { _ in
        try intake.entry(for: harness.buy().notification.signedPayload)
      }
      let answered = AnsweredEntries()
      try await harness.pool.withTransaction { connection in
        _ = try await connection.query(Held.subscriptionRow.query(customers))
        try await SharedCommit.with(harness) { commit in
          try await commit.record(blocked + unrelated.dropFirst(), after: unrelated[0]) { index, entry in
            let receipt = try? await commit.ledger.record(entry)
            if let index { answered.append(index, isCommitted: receipt?.isNews == true) }
          }
        }
      }
      let order = answered.all
      #expect(order.prefix(6).map(\.index).sorted() == [5, 6, 7, 8, 9, 10])
      #expect(order.filter(\.isCommitted).map(\.index).sorted() == [5, 6, 7, 8, 9, 10])
    }
  }

  /// The requests that need the held lock of one customer.
  enum Flood: CaseIterable, Sendable {
    /// Many purchases, claimed by the customer.
    case purchases
    /// The customer's purchase, claimed by many others.
    case claimants
  }

  @Test(arguments: Flood.allCases)
  func `any number of requests that need a held lock fail together, after all others are answered`(
    flood: Flood
  )
    async throws
  {
    try await withHarness { harness in
      let customer = try await harness.customers(1)
      let entries = try (0..<200).map { _ in
        switch flood {
        case .purchases: try harness.entry(by: customer[0].user)
        case .claimants: try harness.entry(by: UUID(), of: customer[0].bought)
        }
      }
      let others = try (0..<8).map { _ in try harness.entry(by: UUID()) }
      let answered = AnsweredEntries()
      try await SharedCommit.with(harness, connections: 6, timeout: .milliseconds(20)) { commit in
        try await harness.pool.withTransaction { connection in
          let held = flood == .purchases ? Held.customerKey : .purchaseKey
          _ = try await connection.query(held.query(customer))
          await withTaskGroup { group in
            for (index, entry) in (entries + others).enumerated() {
              group.addTask {
                let receipt = try? await commit.ledger.record(entry)
                answered.append(index, isCommitted: receipt?.isNews == true)
              }
            }
          }
        }
        #expect(answered.all.count == 208)
        #expect(Set(answered.all.prefix(8).map(\.index)) == Set(200..<208))
        #expect(Set(answered.all.filter(\.isCommitted).map(\.index)) == Set(200..<208))
        _ = try await commit.ledger.record(entries[0])
      }
    }
  }

  @Test func `a purchase with a locked row does not stop the sweep of other purchases`() async throws {
    try await withHarness { harness in
      let customers = try await harness.customers(2)
      // The locked purchase is the longest overdue, and a whole page of the sweep is due before the other purchase.
      _ = try await harness.pool.query(
        """
        UPDATE subscriptions SET next_change_at = now() - interval '2 years'
        WHERE original_transaction_id = \(customers[0].bought.originalTransactionID)
        """)
      _ = try await harness.pool.query(
        """
        INSERT INTO subscriptions (original_transaction_id, transaction_id, bundle_id, environment, product_id,
          kind, ownership, purchase_date, auto_renew_enabled, signed_at, is_counted, status, store_status,
          phase_starts, phase_statuses, phase_store_statuses, next_change_at)
        SELECT 'empty-' || n, 'empty-' || n, \(TestApps.climbing), 'Production', \(TestApps.monthly),
          'Auto-Renewable Subscription', 'PURCHASED', now(), false, now(), true, 'active', 'active',
          ARRAY[NULL]::timestamptz[], ARRAY['active'], ARRAY['active'], now() - interval '1 year'
        FROM generate_series(1, 300) AS n
        """)
      harness.clock.set(try #require(customers[1].bought.transaction.expiresDate))
      try await harness.pool.withTransaction { connection in
        _ = try await connection.query(Held.subscriptionRow.query([customers[0]]))
        _ = try? await harness.service.sweep.run()
      }
      #expect(try await harness.row(of: customers[1].bought.originalTransactionID).status == "expired")
      _ = try await harness.service.sweep.run()
      #expect(try await harness.row(of: customers[0].bought.originalTransactionID).status == "expired")
    }
  }
}

/// The entries in the order in which they completed.
private final class AnsweredEntries: Sendable {
  private let entries = Mutex<[(index: Int, isCommitted: Bool)]>([])

  var all: [(index: Int, isCommitted: Bool)] { entries.withLock { $0 } }

  func append(_ index: Int, isCommitted: Bool) { entries.withLock { $0.append((index, isCommitted)) } }
}

private typealias HeldCustomer = (user: UUID, bought: SignedOutcome)
private typealias SomeRequest = @Sendable () async throws -> Answer

extension HeldLockTests.Held {
  fileprivate func query(_ customers: [HeldCustomer]) -> Query {
    let purchases = customers.map(\.bought.originalTransactionID)
    switch self {
    case .subscriptionRow:
      return "SELECT 1 FROM subscriptions WHERE original_transaction_id = ANY(\(purchases)) FOR UPDATE"
    case .purchaseKey: return AdvisoryLock.acquire(.purchase, Set(purchases))
    case .customerKey: return AdvisoryLock.acquire(.customer, Set(customers.map(\.user.uuidString)))
    case .referencedProfile:
      return "SELECT 1 FROM profiles WHERE id = ANY(\(customers.map(\.user))) FOR UPDATE"
    }
  }
}

extension Harness {
  /// A validation of a purchase by a user, of a new one if none is given.
  fileprivate func entry(by user: UUID, of known: SignedOutcome? = nil) throws -> LedgerEntry {
    let bought = try known ?? buy()
    let purchase = try service.proofs.verifier.purchase(
      signedTransaction: bought.signedTransaction, signedRenewalInfo: bought.signedRenewalInfo, bundleID: nil)
    return LedgerEntry(purchase, because: .proof(Claim(by: .user(user))), instant: clock.now)
  }

  fileprivate func customers(_ count: Int) async throws -> [HeldCustomer] {
    var customers: [HeldCustomer] = []
    for _ in 0..<count { customers.append(try await customer()) }
    return customers
  }

  /// A notification about each customer's purchase, and a validation of the first customer's purchase.
  fileprivate func blockedRequests(
    _ held: HeldLockTests.Held, of customers: [HeldCustomer]
  ) async throws -> [SomeRequest] {
    clock.advance(seconds: 60)
    let outcomes = try customers.map { user, bought in
      if held == .referencedProfile { return try buy(TestApps.annual, token: user) }
      return try store.perform(.setAutoRenew(false), on: bought.originalTransactionID)
    }
    let token = try await token(for: customers[0].user)
    return outcomes.map { outcome in { try await self.notify(outcome.notification.signedPayload) } } + [
      { try await self.validate(["signedTransaction": outcomes[0].signedTransaction], token: token) }
    ]
  }

  /// Requests of other customers: half notifications, half validations.
  fileprivate func unrelatedRequests(_ count: Int) throws -> [SomeRequest] {
    try (0..<count).map { number in
      let bought = try buy()
      if number.isMultiple(of: 2) { return { try await self.notify(bought.notification.signedPayload) } }
      return { try await self.validate(["signedTransaction": bought.signedTransaction]) }
    }
  }

  /// Sends all requests at once, with the blocked ones spread among the others.
  fileprivate func answers(
    to blocked: [SomeRequest], among unrelated: [SomeRequest]
  ) async throws -> (blocked: [Answer], unrelated: [Answer]) {
    let share = unrelated.count / blocked.count
    return try await withThrowingTaskGroup(of: (isBlocked: Bool, answer: Answer).self) { group in
      for (number, request) in unrelated.enumerated() {
        if number.isMultiple(of: share), number / share < blocked.count {
          let request = blocked[number / share]
          group.addTask { (true, try await request()) }
        }
        group.addTask { (false, try await request()) }
      }
      let answers = try await group.reduce(into: []) { $0.append($1) }
      return (answers.filter(\.isBlocked).map(\.answer), answers.filter { !$0.isBlocked }.map(\.answer))
    }
  }
}
