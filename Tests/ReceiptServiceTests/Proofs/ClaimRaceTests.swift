import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// Two users claim one purchase concurrently, fifty times under each policy.
@Suite struct ClaimRaceTests {
  private enum Case: String, CaseIterable {
    case keep, transfer
    case whileActive = "transferWhenInactive"
    case afterwards = "transferWhenInactive after its end"

    var policy: String { rawValue.split(separator: " ").first.map(String.init) ?? rawValue }
    /// Whether the second claim takes the purchase from the first user.
    var moves: Bool { self == .transfer || self == .afterwards }
  }

  @Test(arguments: Case.allCases)
  private func `two concurrent claims of one purchase end as the transfer policy says`(
    race: Case
  ) async throws {
    let configuration = TestApps.configuration(transferPolicy: race.policy)
    try await withHarness(configuration: configuration) { harness in
      let bought = try (0..<50).map { _ in try harness.buy() }
      if race == .afterwards {
        harness.clock.set(try #require(bought.compactMap(\.transaction.expiresDate).max()))
      }
      for purchase in bought {
        let id = purchase.originalTransactionID
        let users = [UUID(), UUID()]
        let answers = try await atOnce(2) { number in
          try await harness.validate(
            ["signedTransaction": purchase.signedTransaction],
            token: harness.token(for: users[number - 1]))
        }
        #expect(answers.map(\.status).sorted() == (race.moves ? [200, 200] : [200, 409]))
        #expect(answers.allSatisfy { $0.status == 200 || $0.code == "belongs_to_another_customer" })

        let owner = try #require(try await harness.row(of: id).userID)
        let other = try #require(users.first { $0 != owner })
        #expect(users.contains(owner))
        let moves = try await harness.pool.query(
          "SELECT from_customer, to_customer FROM support_actions WHERE original_transaction_id = \(id)"
        ).map {
          [try $0.decode("from_customer", as: String.self), try $0.decode("to_customer", as: String.self)]
        }
        #expect(moves == (race.moves ? [[other, owner].map { $0.uuidString.lowercased() }] : []))
        // Responses and profiles agree.
        let isOpen = race != .afterwards
        #expect(try await harness.isPremium(owner) == isOpen)
        #expect(try await harness.isPremium(other) == false)
        #expect(try await harness.profileRow(of: owner)?.product == TestApps.monthly)
        #expect(try await harness.profileRow(of: other)?.product == nil)
      }
    }
  }
}
