import Actions
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing
import Text

@testable import Authentication
@testable import ReceiptService
@testable import Support

/// Users whose access token was valid, and who have no purchase.
@Suite struct SeenUserTests {
  private struct Seen: Equatable {
    var first: Date
    var last: Date
  }

  private func seen(_ user: UUID, _ harness: Harness) async throws -> [Seen] {
    try await harness.service.sharedResources.seenUsers.flush()
    return try await harness.pool.query(
      "SELECT first_seen_at, last_seen_at FROM seen_users WHERE user_id = \(user) ORDER BY bundle_id"
    ).map { Seen(first: try $0.decode("first_seen_at"), last: try $0.decode("last_seen_at")) }
  }

  private func grant(to user: UUID, _ harness: Harness) async throws -> SupportRefusal.Kind? {
    try await refusal {
      _ = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 3, by: #require(Harness.ada))
    }
  }

  @Test func `a user with a valid token is known without a purchase, and needs no force`() async throws {
    try await withHarness { harness in
      let requests: [(UUID) async throws -> Void] = [
        { user in
          let answer = try await harness.profile(of: user, token: harness.token(for: user))
          #expect(answer.status == 200)
        },
        { user in
          let answer = try await harness.sync([], user: user, token: harness.token(for: user))
          #expect(answer.status == 200)
        },
        { user in
          let (_, bought) = try await harness.customer()
          let refused = try await harness.validate(
            ["signedTransaction": bought.signedTransaction], token: harness.token(for: user))
          #expect(refused.code == "belongs_to_another_customer")
        },
        { user in
          let (_, bought) = try await harness.customer()
          let refused = try await harness.sync(
            [bought.signedTransaction], user: user, token: harness.token(for: user))
          #expect(refused.code == "belongs_to_another_customer")
        },
        { user in
          let answer = try await harness.consent(true, of: user)
          #expect(answer.status == 200)
        },
      ]
      for (number, request) in requests.enumerated() {
        let user = UUID()
        #expect(try await harness.desk.find(user.uuidString).outcome == .neverSeen, "\(number)")
        #expect(try await grant(to: user, harness) == .notFound, "\(number)")
        try await request(user)
        let now = harness.clock.now
        #expect(try await seen(user, harness) == [Seen(first: now, last: now)], "\(number)")
        let found = try await harness.desk.find(user.uuidString)
        #expect(found.outcome == .found, "\(number)")
        #expect(found.detail.hasSuffix("known, without purchase"), "\(found.detail)")
        #expect(found.search.kinds == [.user])
        let report = try await harness.desk.customer(user.uuidString)
        let customer = try #require(report.customers.first)
        #expect(report.customers.map(\.bundleID) == [TestApps.climbing])
        #expect(customer.because == "the customer has no purchase, grant or trial")
        #expect(report.description.contains("signed in    with a valid token, first on "), "\(report)")
        #expect(try await grant(to: user, harness) == nil, "\(number)")
        #expect(try await !harness.desk.find(user.uuidString).detail.contains("without purchase"))
      }
    }
  }

  @Test func `a token that is not valid, or of another user, makes no user known`() async throws {
    try await withHarness { harness in
      let (user, other) = (UUID(), UUID())
      #expect(try await harness.profile(of: user, token: "forged").status == 401)
      #expect(try await harness.profile(of: user, token: nil).status == 401)
      let foreign = try await harness.profile(of: user, token: harness.token(for: other))
      #expect(foreign.status == 403)
      #expect(try await seen(user, harness) == [])
      #expect(try await harness.desk.find(user.uuidString).outcome == .neverSeen)
    }
  }

  @Test func `a user is written once a day, and deleted 395 days after the last request`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let start = Day(of: harness.clock.now).end
      harness.clock.set(start)
      func asks() async throws {
        _ = try await harness.profile(of: user, token: harness.token(for: user))
      }
      try await asks()
      harness.clock.advance(seconds: 3_600)
      try await asks()
      #expect(try await seen(user, harness) == [Seen(first: start, last: start)])
      harness.clock.set(start + 86_400 + 60)
      try await asks()
      let last = harness.clock.now
      #expect(try await seen(user, harness) == [Seen(first: start, last: last)])
      // Another server does not write the day again.
      let other = try await harness.service(configuration: TestApps.json)
      harness.clock.advance(seconds: 60)
      other.sharedResources.seenUsers.note(user, of: TestApps.climbing)
      await other.close()
      #expect(try await seen(user, harness) == [Seen(first: start, last: last)])

      harness.clock.set(last + SeenUsers.lifetime)
      try await harness.service.retentionJob.run()
      #expect(try await seen(user, harness).count == 1)
      harness.clock.advance(seconds: 1)
      try await harness.service.retentionJob.run()
      #expect(try await seen(user, harness) == [])
    }
  }

  @Test func `a flood of users leaves a bounded number of notes, and a later request makes up for it`()
    async throws
  {
    try await withHarness { harness in
      let users = (0..<SeenUsers.capacity + 10).map { _ in UUID() }
      let notes = harness.service.sharedResources.seenUsers
      for user in users { notes.note(user, of: TestApps.climbing) }
      try await notes.flush()
      #expect(try await harness.count("seen_users") == SeenUsers.capacity)
      for user in users { notes.note(user, of: TestApps.climbing) }
      try await notes.flush()
      #expect(try await harness.count("seen_users") == users.count)
    }
  }

  @Test func `erasing deletes the user, and a note from before it does not come back`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let id = user.uuidString.lowercased()
      _ = try await harness.profile(of: user, token: harness.token(for: user))
      #expect(try await seen(user, harness).count == 1)
      let export = try await harness.desk.exportCustomer(id)
      #expect(export.tables.map(\.table) == ["seen_users"])

      // A note of the next day waits while the customer is erased.
      harness.clock.advance(days: 1)
      _ = try await harness.profile(of: user, token: harness.token(for: user))
      let report = try await harness.erase(id)
      #expect(report.description.contains("seen_users: 1 (deleted)"), "\(report)")
      #expect(try await seen(user, harness) == [])
      #expect(try await harness.tables(with: id, except: ["profiles", "user_preferences"]) == [])
      #expect(try await harness.desk.find(id).outcome == .neverSeen)

      // The app is still in use: its next requests make a new customer.
      harness.clock.advance(seconds: 61)
      _ = try await harness.profile(of: user, token: harness.token(for: user))
      #expect(try await seen(user, harness).count == 1)
    }
  }

  @Test func `notes stay while the database is unavailable`() async throws {
    try await withHarness(role: nil) { harness in
      let user = UUID()
      _ = try await harness.profile(of: user, token: harness.token(for: user))
      _ = try await harness.pool.query("ALTER TABLE seen_users RENAME TO hidden")
      await #expect(throws: PostgresError.self) {
        try await harness.service.sharedResources.seenUsers.flush()
      }
      _ = try await harness.pool.query("ALTER TABLE hidden RENAME TO seen_users")
      #expect(try await seen(user, harness).count == 1)
    }
  }
}
