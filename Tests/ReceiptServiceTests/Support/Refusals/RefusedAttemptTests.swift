import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Platform
import Postgres
import Testing

@testable import ReceiptService
@testable import Requests
@testable import Support

@Suite struct RefusedAttemptTests {
  private struct Kept: Equatable {
    var route: String
    var app: String?
    var user: UUID?
    var device: String?
    var transaction: String?
    var code: String
  }

  private func kept(_ harness: Harness) async throws -> [Kept] {
    try await harness.service.sharedResources.refusedAttempts.flush()
    return try await harness.pool.query(
      "SELECT route, bundle_id, user_id, device_id, transaction_id, code FROM refused_attempts ORDER BY id"
    ).map {
      Kept(
        route: try $0.decode("route"), app: try $0.decode("bundle_id"), user: try $0.decode("user_id"),
        device: try $0.decode("device_id"), transaction: try $0.decode("transaction_id"),
        code: try $0.decode("code"))
    }
  }

  @Test func `a refusal of each customer route is kept with the ids that it names`() async throws {
    try await withHarness { harness in
      let (_, bought) = try await harness.customer()
      let boris = UUID()
      let token = try await harness.token(for: boris)
      _ = try await harness.validate(["signedTransaction": bought.signedTransaction], token: token)
      _ = try await harness.validate([
        "transactionID": "99", "deviceID": "phone", "bundleID": TestApps.family,
      ])
      _ = try await harness.profile(of: boris, token: nil)
      _ = try await harness.sync([bought.signedTransaction], user: boris, token: harness.token(for: UUID()))
      _ = try await harness.send(.get, "/api/v1/devices/tablet/entitlements?bundleID=none")
      _ = try await harness.pair("kid", to: "tablet")
      let paths = "/api/v1/subscriptions/validate"
      #expect(
        try await kept(harness) == [
          Kept(
            route: "POST \(paths)", app: TestApps.climbing, user: boris, device: nil,
            transaction: bought.transactionID, code: "belongs_to_another_customer"),
          Kept(
            route: "POST \(paths)", app: TestApps.family, user: nil, device: "phone", transaction: "99",
            code: "transaction_not_found"),
          Kept(
            route: "GET /api/v1/profiles/{userID}/premium", app: TestApps.climbing, user: boris, device: nil,
            transaction: nil, code: "unauthenticated"),
          Kept(
            route: "PUT /api/v1/profiles/{userID}/premium", app: TestApps.climbing, user: boris, device: nil,
            transaction: bought.transactionID, code: "forbidden"),
          Kept(
            route: "GET /api/v1/devices/{deviceID}/entitlements", app: nil, user: nil, device: "tablet",
            transaction: nil, code: "wrong_app"),
          Kept(
            route: "POST /api/v1/devices/{deviceID}/children", app: nil, user: nil, device: "tablet",
            transaction: nil, code: "wrong_app"),
        ])
      let text = try await harness.pool.query(
        "SELECT string_agg(r::text, ' ') AS text FROM refused_attempts r")[0]
        .decode("text", as: String.self)
      #expect(!text.contains(token) && !text.contains(bought.signedTransaction.prefix(40)))
      #expect(text.contains("127.0.0.0/24"))
    }
  }

  @Test func `support sees a refused request in the timeline, the customer report and the support API`()
    async throws
  {
    try await withHarness { harness in
      let (anna, bought) = try await harness.customer()
      let boris = UUID()
      _ = try await harness.validate(
        ["signedTransaction": bought.signedTransaction], token: harness.token(for: boris))
      try await harness.service.sharedResources.refusedAttempts.flush()
      for condition in [
        "user_id = '\(boris)'", "original_transaction_id = '\(bought.originalTransactionID)'",
        "transaction_id = '\(bought.transactionID)'",
      ] {
        let events = try await harness.pool.query(
          Query(unescaped: "SELECT what FROM support_timeline WHERE event = 'refused' AND \(condition)"))
        #expect(events.count == 1, "\(condition)")
      }
      // Refused requests alone make no customer, because any client can name any id.
      let unseen = try await harness.desk.customer(boris.uuidString)
      #expect(unseen.isEmpty)
      #expect(unseen.description.contains("never seen"))
      #expect(unseen.description.contains("belongs_to_another_customer"))
      let unknown = try await harness.send(
        .get, "/support/v1/customer/\(boris)", token: Harness.supportToken, to: harness.adminAddress)
      #expect(unknown.status == 404)
      #expect(unknown.string("detail")?.contains("nly refused requests name") == true)
      #expect(
        try await refusal {
          _ = try await harness.desk.grant(
            to: boris.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 1,
            by: #require(Harness.ada))
        } == .notFound)
      _ = try await harness.desk.grant(
        to: boris.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 1,
        by: #require(Harness.ada),
        isForced: true)
      let report = try await harness.desk.customer(boris.uuidString)
      #expect(report.description.contains("refused requests (UTC)"))
      #expect(report.description.contains("belongs_to_another_customer"))
      let answer = try await harness.send(
        .get, "/support/v1/customer/\(boris)", token: Harness.supportToken, to: harness.adminAddress)
      let customer = try #require((answer["customers"] as? [[String: Any]])?.first)
      let attempts = try #require(customer["refusedAttempts"] as? [[String: Any]])
      #expect(attempts.map { $0["transactionID"] as? String } == [bought.transactionID])
      // The owner's own report has no refusal.
      let owner = try await harness.desk.customer(anna.uuidString)
      #expect(!owner.description.contains("refused requests"))
    }
  }

  @Test func `a flood of refusals is answered as usual and leaves a bounded number of rows`() async throws {
    try await withHarness { harness in
      try await flood(harness)
      let dropped = try await harness.scrape().counts("receiptd_refused_attempts_dropped_total")
      #expect(
        dropped == ["{limit=\"address\"}": 20, "{limit=\"buffer\"}": 100, "{limit=\"day\"}": 100],
        "\(dropped)")
    }
  }

  private func flood(_ harness: Harness) async throws {
    let path = "/api/v1/profiles/\(UUID())/premium"
    for _ in 0..<(RefusedAttemptLog.perAddress + 20) {
      let answer = try await harness.send(.get, path)
      #expect(answer.status == 401)
    }
    var expected = RefusedAttemptLog.perAddress
    var rows = try await kept(harness).count
    #expect(rows == expected)

    // Many addresses of one network, then many networks.
    let network: UInt128 = 0x2001_0db8_0000 << 80
    for subscriber in 0..<RefusedAttemptLog.perNetwork + 100 {
      refuse(IPAddress(bits: network | UInt128(subscriber) << 64), harness)
    }
    expected += RefusedAttemptLog.perNetwork
    rows = try await kept(harness).count
    #expect(rows == expected)

    for other in 1...RefusedAttemptLog.capacity + 100 {
      refuse(IPAddress(bits: network | UInt128(other) << 80), harness)
    }
    expected += RefusedAttemptLog.capacity
    rows = try await kept(harness).count
    #expect(rows == expected)
  }

  private func refuse(_ address: IPAddress, _ harness: Harness) {
    let request = Request(
      method: .get, path: "/", clientAddress: address, routePattern: "/api/v1/profiles/{userID}/premium")
    _ = harness.service.sharedResources.refusedAttempts.note(
      request, ServiceError.unauthenticated, in: harness.service.apps)
  }

  @Test func `a response that is no refusal is not kept`() async throws {
    try await withHarness { harness in
      let user = UUID()
      _ = try await harness.profile(of: user, token: harness.token(for: user))
      harness.store.add(.error(.generalInternal))
      _ = try await harness.validate(["transactionID": "99", "bundleID": TestApps.climbing])
      _ = try await harness.notify("forged")
      _ = try await harness.send(.get, "/api/v1/nowhere")
      #expect(try await kept(harness) == [])
    }
  }

  @Test func `refused requests are deleted after 30 days`() async throws {
    try await withHarness { harness in
      _ = try await harness.profile(of: UUID(), token: nil)
      #expect(try await kept(harness).count == 1)
      harness.clock.advance(days: 29)
      try await harness.service.retentionJob.run()
      #expect(try await kept(harness).count == 1)
      harness.clock.advance(days: 2)
      try await harness.service.retentionJob.run()
      #expect(try await kept(harness).isEmpty)
    }
  }
}
