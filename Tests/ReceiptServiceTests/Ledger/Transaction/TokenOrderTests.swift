import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// One transaction with three signatures: with an `appAccountToken`, with another one, and without. The signatures
/// arrive in every order.
@Suite struct TokenOrderTests {
  private static let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]

  private let anna = UUID()
  private let boris = UUID()
  private let clara = UUID()

  /// The signatures of a new purchase, oldest first: Anna's token, Boris's token, no token. Each has its own
  /// storefront, which the ledger keeps beside the columns.
  private func signatures(_ harness: Harness, tokens: [UUID?]) throws -> [TransactionInfo] {
    let bought = try harness.buy().transaction
    return zip(tokens, ["DEU", "FRA", "USA"]).enumerated().map { number, named in
      var signature = bought
      signature.appAccountToken = named.0
      signature.storefront = named.1
      signature.signedDate = bought.signedDate + Double(number) * 60
      return signature
    }
  }

  private func expect(_ owner: UUID, of info: TransactionInfo, in harness: Harness, _ order: [Int])
    async throws
  {
    let id = info.originalTransactionId
    #expect(try await harness.row(of: id).userID == owner, "\(order)")
    let rows = try await harness.pool.query(
      """
      SELECT app_account_token, signed_at, other_claims ->> 'storefront' FROM transactions
      WHERE original_transaction_id = \(id)
      """)
    #expect(rows.count == 1)
    #expect(try rows.map { try $0.decode(0, as: UUID?.self) } == [owner], "\(order)")
    let (signedAt, storefront): (Date, String?) = (try rows[0].decode(1), try rows[0].decode(2))
    #expect(abs(signedAt.timeIntervalSince(info.signedDate)) < 0.001, "the latest signature: \(order)")
    #expect(storefront == "USA", "the claims of the latest signature: \(order)")
  }

  @Test func `any order of a transaction's signatures, with repeats, gives the same owner`() async throws {
    try await withHarness { harness in
      for tokens in [[anna, boris, nil], [anna, nil, nil], [nil, anna, nil], [boris, anna, anna]] as [[UUID?]]
      {
        let owner = try #require(tokens.compactMap(\.self).last)
        for order in Self.orders {
          let signatures = try signatures(harness, tokens: tokens)
          harness.clock.advance(days: 1)
          for index in order + order.prefix(2) {
            let answer = try await harness.validate(["signedTransaction": harness.sign(signatures[index])])
            #expect(answer.status == 200)
          }
          try await expect(owner, of: signatures[2], in: harness, order)
        }
      }
    }
  }

  @Test func `a customer that proves a purchase between its signatures does not become the owner`()
    async throws
  {
    try await withHarness { harness in
      for order in Self.orders {
        let signatures = try signatures(harness, tokens: [anna, boris, nil])
        harness.clock.advance(days: 1)
        let token = try await harness.token(for: clara)
        for index in order {
          _ = try await harness.validate(
            ["signedTransaction": harness.sign(signatures[index])], token: token)
        }
        try await expect(boris, of: signatures[2], in: harness, order)
        #expect(try await harness.isPremium(clara) == false)
      }
      #expect(try await harness.isPremium(boris))
    }
  }

  @Test func `signatures of a transaction that arrive in one request give the same owner`() async throws {
    try await withHarness { harness in
      for order in Self.orders {
        let signatures = try signatures(harness, tokens: [anna, boris, nil])
        harness.clock.advance(days: 1)
        let token = try await harness.token(for: clara)
        let proofs = try order.map { try harness.sign(signatures[$0]) }
        // The first signature is stored before, so that the list changes an existing row.
        _ = try await harness.validate(["signedTransaction": proofs[0]])
        #expect(
          try await harness.sync(proofs, user: clara, token: token).code == "belongs_to_another_customer")
        try await expect(boris, of: signatures[2], in: harness, order)
      }
    }
  }
}
