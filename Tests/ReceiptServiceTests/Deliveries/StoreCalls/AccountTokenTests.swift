import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Deliveries
@testable import ReceiptService
@testable import Support

@Suite struct AccountTokenTests {
  private static let telling = Harness.apps(#""tellAccountToken": true"#)

  /// A purchase without a token that a user proves.
  private func claim(_ harness: Harness, by user: UUID) async throws -> SignedOutcome {
    let bought = try harness.buy()
    let token = try await harness.token(for: user)
    #expect(try await harness.sync([bought.signedTransaction], user: user, token: token).status == 200)
    return bought
  }

  @Test func `the App Store is told the user of the first proof, and later notifications name that user`()
    async throws
  {
    try await withHarness(configuration: Self.telling) { harness in
      let user = UUID()
      let bought = try await claim(harness, by: user)
      try await harness.service.deliveries.storeCalls.run()
      try await harness.service.deliveries.storeCalls.run()
      #expect(
        try await harness.storeCalls() == [StoreCallRow(kind: "account_token", outcome: "sent", attempts: 0)])
      let sent = harness.store.acceptedRequests.filter { $0.endpoint == .accountToken }
      #expect(sent.count == 1)
      let parsed = try await AppleModels.parse(sent.map { ("UpdateAppAccountTokenRequest", $0.body) })
      let bodies = try sent.map { try AppleModels.sorted($0.body) }
      #expect(parsed == bodies)

      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      #expect(renewed.transaction.appAccountToken == user)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == user)
    }
  }

  @Test func `a transfer by support holds, though later notifications name the former user`() async throws {
    try await withHarness(configuration: Self.telling) { harness in
      let (user, other) = (UUID(), UUID())
      let bought = try await claim(harness, by: user)
      try await harness.service.deliveries.storeCalls.run()
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: other.uuidString, by: ada, isForced: true)
      harness.clock.set(try #require(bought.transaction.expiresDate))
      let renewed = try await harness.happens(.renew, to: bought.originalTransactionID)
      #expect(renewed.transaction.appAccountToken == user)
      #expect(try await harness.row(of: bought.originalTransactionID).userID == other)
    }
  }

  @Test func `a purchase that moved before the call is not told`() async throws {
    try await withHarness(configuration: Self.telling) { harness in
      let bought = try await claim(harness, by: UUID())
      let ada = try #require(Harness.ada)
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: UUID().uuidString, by: ada, isForced: true)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["not_needed"])
      #expect(harness.store.acceptedRequests.isEmpty)
    }
  }

  @Test func `nothing is told without the key, of a purchase with a token, or of a family member's`()
    async throws
  {
    try await withHarness { harness in
      _ = try await claim(harness, by: UUID())
      #expect(try await harness.storeCalls().isEmpty)
    }
    try await withHarness(configuration: Self.telling) { harness in
      _ = try await harness.customer()
      let shared = try harness.store.buy(
        PurchaseRequest(
          bundleID: TestApps.climbing, productID: TestApps.annual, ownership: .familyShared))
      let user = UUID()
      _ = try await harness.sync(
        [shared.signedTransaction], user: user, token: try await harness.token(for: user))
      #expect(try await harness.storeCalls().isEmpty)
    }
  }

  @Test func `a purchase that the App Store does not know yet is told later, for an hour`() async throws {
    try await withHarness(configuration: Self.telling) { harness in
      harness.store.add(.error(.transactionIdNotFound).at(.accountToken).next(1))
      _ = try await claim(harness, by: UUID())
      try await harness.service.deliveries.storeCalls.run()
      #expect(
        try await harness.storeCalls() == [StoreCallRow(kind: "account_token", outcome: nil, attempts: 1)])
      harness.clock.advance(seconds: 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["sent"])

      harness.store.add(.error(.originalTransactionIdNotFound).at(.accountToken))
      _ = try await claim(harness, by: UUID())
      harness.clock.advance(seconds: 3_700)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().map(\.outcome) == ["sent", "refused"])
    }
  }

  @Test func `a refusal of the App Store ends the call, an outage delays it`() async throws {
    try await withHarness(configuration: Self.telling) { harness in
      harness.store.add(.error(.familyTransactionNotSupported).at(.accountToken).next(1))
      _ = try await claim(harness, by: UUID())
      try await harness.service.deliveries.storeCalls.run()
      harness.store.add(.unauthorized.at(.accountToken).next(1))
      _ = try await claim(harness, by: UUID())
      try await harness.service.deliveries.storeCalls.run()
      #expect(
        try await harness.storeCalls() == [
          StoreCallRow(kind: "account_token", outcome: "refused", attempts: 0),
          StoreCallRow(kind: "account_token", outcome: nil, attempts: 1),
        ])
      harness.clock.advance(seconds: 60)
      try await harness.service.deliveries.storeCalls.run()
      #expect(try await harness.storeCalls().last?.outcome == "sent")
    }
  }
}
