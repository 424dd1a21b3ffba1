import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// Warnings before an action of support does harm.
@Suite struct WarningTests {
  @Test func `grant and transfer to an id that was never seen need force`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let desk = harness.desk
      let (anna, bought) = try await harness.customer()
      let stranger = UUID().uuidString
      #expect(
        try await refusal {
          _ = try await desk.grant(
            to: stranger, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada)
        } == .notFound)
      #expect(
        try await refusal {
          _ = try await desk.transfer(bought.originalTransactionID, to: stranger, by: ada)
        } == .notFound)
      #expect(
        try await refusal {
          _ = try await desk.extendTrial(of: "no phone", bundleID: TestApps.family, days: 7, by: ada)
        } == .notFound)
      #expect(try await harness.actions().isEmpty)
      // A customer of another app is not one of this app.
      #expect(
        try await refusal {
          _ = try await desk.grant(
            to: anna.uuidString, bundleID: TestApps.family, tier: "family", days: 7, by: ada)
        } == .notFound)
      _ = try await desk.grant(
        to: anna.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada)
      _ = try await desk.grant(
        to: stranger, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada, isForced: true)
      // The grant made the id known.
      _ = try await desk.transfer(bought.originalTransactionID, to: stranger, by: ada)
    }
  }

  @Test func `a user with a profile and a device with an event are known`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let user = UUID()
      _ = try await harness.pool.query("INSERT INTO profiles (id) VALUES (\(user))")
      _ = try await harness.desk.grant(
        to: user.uuidString, bundleID: TestApps.climbing, tier: "premium", days: 7, by: ada)
      let event = """
        {"bundleID": "\(TestApps.family)", "customerID": "phone",
         "events": [{"name": "paywall_shown", "at": "\(harness.clock.now.ISO8601Format())"}]}
        """
      #expect(try await harness.send(.post, "/api/v1/events", json: event).status == 202)
      _ = try await harness.desk.grant(
        to: "phone", bundleID: TestApps.family, tier: "family", days: 7, by: ada)
    }
  }

  @Test func `the support API refuses an unseen id with a sentence and takes force`() async throws {
    try await withHarness { harness in
      func grant(_ force: String) async throws -> Answer {
        let body = """
          {"customer": "phone", "bundleID": "\(TestApps.family)", "tier": "family", "days": 7, "by": "ada",
           "reason": "ticket 812"\(force)}
          """
        return try await harness.send(
          .post, "/support/v1/grant", json: body, token: Harness.supportToken, to: harness.adminAddress)
      }
      let refused = try await grant("")
      #expect(refused.status == 404)
      #expect(refused.code == "not_found")
      #expect(refused.string("detail")?.contains("has never seen the device 'phone'") == true)
      #expect(try await grant(#", "force": false"#).status == 404)
      #expect(try await grant(#", "force": true"#).status == 201)
    }
  }

  @Test func `a dry run of a transfer shows both customers before and after, and changes nothing`()
    async throws
  {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let (anna, bought) = try await harness.customer()
      let (boris, _) = try await harness.customer(buys: TestApps.annual)
      let clara = UUID()
      let id = bought.originalTransactionID
      let dry = try await harness.desk.transfer(
        id, to: clara.uuidString, by: ada, isForced: true, isDryRun: true)
      #expect(dry.isDryRun && dry.isChanged)
      #expect(
        dry.customers.map(\.customer)
          == ["user \(anna.uuidString.lowercased())", "user \(clara.uuidString.lowercased())"])
      #expect(dry.customers.map(\.before.isAccessGranted) == [true, false])
      #expect(dry.customers.map(\.after.isAccessGranted) == [false, true])
      #expect(dry.description.contains("would be transferred"))
      #expect(dry.description.split(separator: "\n").allSatisfy { $0.count <= 80 })
      #expect(try await harness.row(of: id).userID == anna)
      #expect(try await harness.actions().isEmpty)

      // One purchase moves; the new owner's other purchase stays.
      let done = try await harness.desk.transfer(id, to: boris.uuidString, by: ada)
      #expect(done.customers.map(\.before.isAccessGranted) == [true, true])
      #expect(done.customers.map(\.after.isAccessGranted) == [false, true])
      #expect(try await harness.desk.customer(boris.uuidString).customers.first?.purchases.count == 2)
    }
  }

  @Test func `a dry run shows every device that would lose a shared purchase`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      try harness.sellFamilySubscriptions()
      let bought = try harness.buy(TestApps.individual, bundleID: TestApps.family)
      for name in ["phone", "tablet"] { _ = try await harness.device(name, shows: bought) }
      let dry = try await harness.desk.transfer(
        bought.originalTransactionID, to: "new phone", by: ada, isForced: true, isDryRun: true)
      #expect(dry.customers.map(\.customer) == ["device phone", "device tablet", "device new phone"])
      #expect(dry.customers.map(\.before.tier) == ["individual", "individual", nil])
      #expect(dry.customers.map(\.after.tier) == [nil, nil, "individual"])
      let done = try await harness.desk.transfer(
        bought.originalTransactionID, to: "new phone", by: ada, isForced: true)
      #expect(done.customers.map(\.after.tier) == dry.customers.map(\.after.tier))
    }
  }

  @Test func `a family member's share is never transferred`() async throws {
    try await withHarness { harness in
      let ada = try #require(Harness.ada)
      let info = try harness.transaction { $0.inAppOwnershipType = .familyShared }
      let user = UUID()
      _ = try await harness.validate(
        ["signedTransaction": harness.sign(info)], token: harness.token(for: user))
      let desk = harness.desk
      #expect(
        try await refusal {
          _ = try await desk.transfer(
            info.originalTransactionId, to: UUID().uuidString, by: ada, isForced: true)
        } == .invalid)
    }
  }
}
