import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// A customer who pays twice.
@Suite struct DoublePurchaseTests {
  private func report(_ id: String, _ harness: Harness) async throws -> ReportedCustomer {
    let report = try await harness.desk.customer(id)
    #expect(report.description.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(report)")
    return try #require(report.customers.first)
  }

  private func buys(
    _ product: String, _ user: UUID?, account: String, _ harness: Harness,
    ownership: InAppOwnershipType = .purchased, bundleID: String = TestApps.climbing
  ) async throws -> SignedOutcome {
    let bought = try harness.store.buy(
      PurchaseRequest(
        bundleID: bundleID, productID: product, accountID: account, appAccountToken: user,
        ownership: ownership))
    try await harness.arrives(bought)
    harness.clock.advance(seconds: 60)
    return bought
  }

  private func shown(_ bought: SignedOutcome) throws -> String {
    "…\(try #require(bought.transaction.appTransactionId).suffix(6))"
  }

  @Test
  func `two subscriptions of one user under two Apple Accounts are told apart, and the later one is spare`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let first = try await buys(TestApps.monthly, user, account: "account-of-anna", harness)
      #expect(try await report(user.uuidString, harness).doublePurchases.isEmpty)
      let second = try await buys(TestApps.monthly, user, account: "account-of-work", harness)
      #expect(try shown(first) != shown(second))
      let customer = try await report(user.uuidString, harness)
      let double = try #require(customer.doublePurchases.first)
      #expect(customer.doublePurchases.count == 1)
      #expect(double.cause == .twoAppleAccounts)
      #expect(double.keep.originalTransactionID == first.originalTransactionID)
      #expect(double.spare.originalTransactionID == second.originalTransactionID)
      #expect(double.spare.appleAccount == (try shown(second)))
      #expect(double.spareRenews)
      #expect(double.advice.contains("with the Apple Account \(try shown(second)) that bought it"))
      #expect(Set(customer.purchases.map(\.appleAccount)) == [try shown(first), try shown(second)])
      let story = try await harness.desk.customer(user.uuidString).description
      #expect(story.contains("\nbought twice\n  two Apple Accounts: "), "\(story)")
      #expect(story.contains("\n    Apple Account \(try shown(first))\n"))

      let answer = try await harness.send(
        .get, "/support/v1/customer/\(user)", token: Harness.supportToken, to: harness.adminAddress)
      let told = try #require((answer["customers"] as? [[String: Any]])?.first)
      let doubles = try #require(told["doublePurchases"] as? [[String: Any]])
      #expect(doubles.map { $0["cause"] as? String } == ["twoAppleAccounts"])
      // Neither the whole number of an account nor a digest of it is on the page.
      #expect(
        !String(decoding: answer.body, as: UTF8.self).contains(
          try #require(first.transaction.appTransactionId)))

      // A refund ends it.
      try await harness.happens(.refundLatest, to: second.originalTransactionID)
      #expect(try await report(user.uuidString, harness).doublePurchases.isEmpty)
    }
  }

  @Test func `a subscription beside a purchase for life is spare, also where it was bought first`()
    async throws
  {
    try await withHarness { harness in
      let user = UUID()
      let monthly = try await buys(TestApps.monthly, user, account: "account-of-anna", harness)
      let lifetime = try await buys(TestApps.lifetime, user, account: "account-of-anna", harness)
      try await harness.happens(.setAutoRenew(false), to: monthly.originalTransactionID)
      let double = try #require(try await report(user.uuidString, harness).doublePurchases.first)
      #expect(double.cause == .twoProducts)
      #expect(double.keep.originalTransactionID == lifetime.originalTransactionID)
      #expect(double.spare.originalTransactionID == monthly.originalTransactionID)
      #expect(!double.spareRenews && !double.advice.contains("renewal"))
      harness.clock.set(try #require(monthly.transaction.expiresDate))
      #expect(try await report(user.uuidString, harness).doublePurchases.isEmpty)
    }
  }

  @Test func `one Apple Account that pays for two users is on both pages`() async throws {
    try await withHarness { harness in
      let (anna, boris) = (UUID(), UUID())
      let first = try await buys(TestApps.lifetime, anna, account: "account-of-anna", harness)
      let second = try await buys(TestApps.monthly, boris, account: "account-of-anna", harness)
      for user in [anna, boris] {
        let double = try #require(try await report(user.uuidString, harness).doublePurchases.first)
        #expect(double.cause == .twoCustomers)
        #expect(double.keep.originalTransactionID == first.originalTransactionID)
        #expect(double.spare.originalTransactionID == second.originalTransactionID)
        #expect(double.keep.otherCustomer == (user == anna ? nil : anna.uuidString.lowercased()))
        #expect(double.spare.otherCustomer == (user == anna ? boris.uuidString.lowercased() : nil))
      }
      // Another Apple Account is no part of it.
      let clara = UUID()
      _ = try await buys(TestApps.monthly, clara, account: "account-of-clara", harness)
      #expect(try await report(clara.uuidString, harness).doublePurchases.isEmpty)
    }
  }

  @Test func `a share of the family costs nothing: the own subscription beside it is spare`() async throws {
    try await withHarness { harness in
      let user = UUID()
      let own = try await buys(TestApps.monthly, user, account: "account-of-anna", harness)
      let shared = try await buys(
        TestApps.lifetime, nil, account: "account-of-anna", harness, ownership: .familyShared)
      _ = try await harness.sync(
        [shared.signedTransaction], user: user, token: harness.token(for: user))
      let double = try #require(try await report(user.uuidString, harness).doublePurchases.first)
      #expect(double.cause == .familySharing)
      #expect(double.spare.originalTransactionID == own.originalTransactionID)
      #expect(double.advice.contains("the share ends when the purchaser stops it"))
    }
  }

  @Test func `devices that share a purchase, sandbox purchases and ended ones are not bought twice`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.individual)
      harness.clock.advance(seconds: 60)
      _ = try await harness.device("tablet", shows: bought)
      for device in ["phone", "tablet"] {
        #expect(try await report(device, harness).doublePurchases.isEmpty, "\(device)")
      }
    }
    try await withHarness(configuration: TestApps.configuration(sandboxGrants: #""everyone""#)) { harness in
      let user = UUID()
      for _ in 1...2 { try await harness.arrives(harness.buy(token: user, in: .sandbox)) }
      #expect(try await report(user.uuidString, harness).purchases.count == 2)
      #expect(try await report(user.uuidString, harness).doublePurchases.isEmpty)
    }
  }
}
