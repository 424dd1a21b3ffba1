import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import Postgres
import Testing
import Text

@testable import ReceiptService
@testable import Support

@Suite struct RenewalExtensionTests {
  private static let outage = 3

  @Test func `an extension moves the renewal date, by the App Store's notification, and is written down`()
    async throws
  {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let end = try #require(bought.transaction.expiresDate)
      let extensions = harness.service.support.renewalExtensions
      let ada = try #require(Harness.ada)

      let plan = try await extensions.extend(
        id, days: 5, reasonCode: Self.outage, isDryRun: true, by: ada)
      #expect(plan.isDryRun)
      #expect(plan.renewsAt == end + 5 * 86_400)
      #expect(harness.store.truth(of: id)?.expiresDate == end)
      #expect(try await harness.count("renewal_extensions") == 0)

      let extended = try await extensions.extend(id, days: 5, reasonCode: Self.outage, by: ada)
      #expect(extended.renewsAt == end + 5 * 86_400)
      #expect(extended.description == "\(id): extended by 5 days, renews at \((end + 5 * 86_400).rfc3339)")
      for notification in harness.store.notifications where notification.content.type == .renewalExtended {
        await harness.arrives(notification)
      }
      #expect(try await harness.row(of: id).expiry == end + 5 * 86_400)
      #expect(try await harness.actions().map(\.action) == ["extend-renewal"])
      let timeline = try await harness.pool.query(
        "SELECT what FROM support_timeline WHERE user_id = \(user) AND event = 'extend-renewal'")
      #expect(
        try timeline.first?.decode("what", as: String.self)
          == "ada: ticket 812, by 5 days, renews at \((end + 5 * 86_400).rfc3339)")
      let told = try await harness.desk.customer(user.uuidString).description
        .split(whereSeparator: \.isWhitespace).joined(separator: " ")
      #expect(told.contains("RENEWAL_EXTENDED: applied, until "), "\(told)")
    }
  }

  @Test func `what the App Store does not extend is refused with its reason`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let lifetime = try harness.buy(TestApps.lifetime)
      try await harness.arrives(lifetime)
      let ada = try #require(Harness.ada)
      func refused(
        _ id: String, days: Int = 1, code: Int = 0, isForced: Bool = false
      ) async throws -> SupportRefusal.Kind? {
        try await refusal {
          _ = try await harness.service.support.renewalExtensions.extend(
            id, days: days, reasonCode: code, isForced: isForced, by: ada)
        }
      }
      #expect(try await refused(id, days: 0) == .invalid)
      #expect(try await refused(id, days: 91) == .invalid)
      #expect(try await refused(id, code: 4) == .invalid)
      #expect(try await refused("1") == .notFound)
      #expect(try await refused("\0") == .notFound)
      #expect(try await refused(lifetime.originalTransactionID) == .invalid)
      #expect(try await refused(id, days: 90) == nil)
      // A repeated command does not extend twice.
      #expect(try await refused(id, days: 90) == .alreadyDone)
      #expect(harness.store.acceptedRequests.count == 1)
      #expect(try await refused(id, days: 90, isForced: true) == nil)
      // Apple's limit is two a year.
      #expect(try await refused(id, days: 90, isForced: true) == .invalid)
      let errors = try await harness.pool.query(
        "SELECT last_error FROM renewal_extensions WHERE last_error IS NOT NULL")
      #expect(
        try errors.map { try $0.decode("last_error", as: String.self) } == [
          "it was extended twice within 365 days, Apple's limit"
        ])
    }
  }

  @Test func `an extension whose answer was lost is repeated as the same request`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let ada = try #require(Harness.ada)
      harness.store.add(.unauthorized.at(.extend).next(1))
      await #expect(throws: Problem.self) {
        try await harness.service.support.renewalExtensions.extend(id, days: 5, reasonCode: 1, by: ada)
      }
      #expect(try await harness.actions().isEmpty)
      let open = try await harness.pool.query("SELECT request_identifier FROM renewal_extensions")
      let extended = try await harness.service.support.renewalExtensions.extend(
        id, days: 5, reasonCode: 1, by: ada)
      #expect(try open.first?.decode("request_identifier", as: UUID.self) == extended.id)
      #expect(try await harness.count("renewal_extensions") == 1)
    }
  }

  @Test func `an extension whose answer was lost is not repeated if the renewal date has moved`() async throws
  {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let end = try #require(bought.transaction.expiresDate)
      let ada = try #require(Harness.ada)
      harness.store.add(.unauthorized.at(.extend).next(1))
      await #expect(throws: Problem.self) {
        try await harness.service.support.renewalExtensions.extend(id, days: 5, reasonCode: 1, by: ada)
      }
      try await harness.happens(.extend(days: 5), to: id)
      let extended = try await harness.service.support.renewalExtensions.extend(
        id, days: 5, reasonCode: 1, by: ada)
      #expect(extended.renewsAt == end + 5 * 86_400)
      #expect(harness.store.acceptedRequests.isEmpty)
      #expect(try await harness.actions().map(\.action) == ["extend-renewal"])
    }
  }

  @Test func `an extension that moved the date at the App Store is not repeated before its notification`()
    async throws
  {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let end = try #require(bought.transaction.expiresDate)
      let ada = try #require(Harness.ada)
      harness.store.add(.unauthorized.at(.extend).next(1))
      await #expect(throws: Problem.self) {
        try await harness.service.support.renewalExtensions.extend(id, days: 5, reasonCode: 1, by: ada)
      }
      _ = try harness.store.perform(.extend(days: 5), on: id)
      let extended = try await harness.service.support.renewalExtensions.extend(
        id, days: 5, reasonCode: 1, by: ada)
      #expect(extended.renewsAt == end + 5 * 86_400)
      #expect(harness.store.acceptedRequests.isEmpty)
    }
  }

  @Test func `an extension that another process carries out is refused for a minute`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let id = bought.originalTransactionID
      let ada = try #require(Harness.ada)
      harness.store.add(.unauthorized.at(.extend).next(1))
      await #expect(throws: Problem.self) {
        try await harness.service.support.renewalExtensions.extend(id, days: 5, reasonCode: 1, by: ada)
      }
      _ = try await harness.pool.query(
        "UPDATE renewal_extensions SET next_attempt_at = \(harness.clock.now + 60)")
      for days in [5, 6] {
        let kind = try await refusal {
          _ = try await harness.service.support.renewalExtensions.extend(
            id, days: days, reasonCode: 1, by: ada)
        }
        #expect(kind == .alreadyDone)
      }
      #expect(harness.store.acceptedRequests.isEmpty)
      harness.clock.advance(seconds: 61)
      _ = try await harness.service.support.renewalExtensions.extend(id, days: 5, reasonCode: 1, by: ada)
      #expect(harness.store.acceptedRequests.count == 1)
    }
  }

  @Test func `an extension of all subscribers is followed to its end, also by another server after a crash`()
    async throws
  {
    try await withHarness { harness in
      let bought = try (1...3).map { _ in try harness.buy(token: UUID()) }
      for one in bought { try await harness.arrives(one) }
      let ada = try #require(Harness.ada)
      // The App Store takes the request, and the first server learns no state of it.
      harness.store.add(.error(.statusRequestNotFound).at(.extendAllStatus).next(1))
      func extend(days: Int = 7, isDryRun: Bool = false, isForced: Bool = false) async throws
        -> RenewalExtension
      {
        try await harness.service.support.renewalExtensions.extendAll(
          ofProduct: TestApps.monthly, days: days, reasonCode: Self.outage, isDryRun: isDryRun,
          isForced: isForced, by: ada)
      }
      let plan = try await extend(isDryRun: true)
      #expect(plan.isDryRun)
      #expect(plan.subscribers == 3)
      #expect(plan.extendedAlready == 0)
      let started = try await extend()
      #expect(!started.isComplete)
      #expect(started.acceptedAt != nil)
      #expect(try await refusal { _ = try await extend(days: 8) } == .alreadyDone)

      harness.clock.advance(seconds: 60)
      let other = try await harness.service(configuration: TestApps.json)
      try await other.support.renewalExtensions.run()
      await other.close()
      let ended = try await harness.service.support.renewalExtensions.refreshed(started.id)
      #expect(ended.succeeded == 3)
      #expect(ended.failed == 0)
      #expect(harness.store.acceptedRequests.filter { $0.endpoint == .extendAll }.count == 1)

      for notification in harness.store.notifications { await harness.arrives(notification) }
      for one in bought {
        let end = try #require(one.transaction.expiresDate)
        #expect(try await harness.row(of: one.originalTransactionID).expiry == end + 7 * 86_400)
      }
      let summaries = try await harness.pool.query(
        "SELECT outcome FROM notifications WHERE type = 'RENEWAL_EXTENSION' AND subtype = 'SUMMARY'")
      #expect(try summaries.map { try $0.decode("outcome", as: String.self) } == ["recorded"])
      #expect(try await harness.actions().map(\.action) == ["extend-all-renewals"])

      // A second extension within a day may be a mistake.
      #expect(try await refusal { _ = try await extend() } == .alreadyDone)
      #expect(try await extend(isForced: true).isComplete)
    }
  }

  @Test func `an extension of all subscribers goes to the storefronts of the request`() async throws {
    try await withHarness { harness in
      let bought = try harness.buy(token: UUID())
      let ada = try #require(Harness.ada)
      func extend(_ storefronts: [String], product: String = TestApps.monthly) async throws
        -> RenewalExtension
      {
        try await harness.service.support.renewalExtensions.extendAll(
          ofProduct: product, days: 1, reasonCode: 0, storefronts: storefronts, isForced: true, by: ada)
      }
      #expect(try await refusal { _ = try await extend(["usa"]) } == .invalid)
      #expect(try await refusal { _ = try await extend([], product: "none") } == .notFound)
      #expect(try await extend(["FRA"]).succeeded == 0)
      let storefront = try #require(bought.transaction.storefront)
      #expect(try await extend([storefront, "FRA"]).succeeded == 1)
      #expect(
        try await refusal {
          _ = try await harness.service.support.renewalExtensions.refreshed(UUID())
        } == .notFound)
    }
  }

  @Test func `Apple's library reads both requests and would send the same bodies`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let ada = try #require(Harness.ada)
      let extensions = harness.service.support.renewalExtensions
      _ = try await extensions.extend(bought.originalTransactionID, days: 5, reasonCode: 2, by: ada)
      _ = try await extensions.extendAll(
        ofProduct: TestApps.monthly, days: 7, reasonCode: Self.outage, storefronts: ["USA", "DEU"], by: ada)
      let sent = harness.store.acceptedRequests
      #expect(sent.map(\.endpoint) == [.extend, .extendAll])
      let parsed = try await AppleModels.parse(
        zip(["ExtendRenewalDateRequest", "MassExtendRenewalDateRequest"], sent).map { ($0, $1.body) })
      let bodies = try sent.map { try AppleModels.sorted($0.body) }
      #expect(parsed == bodies)
    }
  }
}
