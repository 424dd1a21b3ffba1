import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Subscriptions
import Testing

@testable import Ledger
@testable import ReceiptService

/// The rules of ``PaidTransaction`` in SQL, for the KPIs, and in Swift, for the counters, give the same results.
@Suite struct PaidTransactionTests {
  @Test func `a transaction is paid by the same prices and offers in SQL and in Swift`() async throws {
    try await withHarness { harness in
      for price: Int64? in [nil, 0, 4_990] {
        for offer: String? in [nil, "FREE_TRIAL", "PAY_AS_YOU_GO", "PAY_UP_FRONT"] {
          var info = try harness.buy().transaction
          info.price = price
          info.offerDiscountType = offer.map { .init(rawValue: $0) }
          let signed = try harness.sign(info)
          #expect(try await harness.validate(["signedTransaction": signed]).status == 200)
          let row = try #require(
            try await harness.pool.query(
              """
              SELECT t.*, \(PaidTransaction.isFreeOffer) AS is_free_offer, \(PaidTransaction.condition) AS is_paid
              FROM transactions t WHERE t.transaction_id = \(info.transactionId)
              """
            ).first)
          let isPaid = price != 0 && offer != "FREE_TRIAL"
          let name: Comment = "\(price ?? -1) \(offer ?? "no offer")"
          #expect(try row.decode("is_paid", as: Bool.self) == isPaid, name)
          #expect(try TransactionFact(info).isPaid == isPaid, name)
          #expect(try TransactionRows.decode(row) == TransactionFact(info), name)
        }
      }
    }
  }

  @Test func `a restored lifetime purchase is recognized by the same rule in SQL and in Swift`() async throws
  {
    let stories: [[(bought: Double, refunded: Double?, isRestored: Bool)]] = [
      [(0, nil, false), (3, nil, true), (5, nil, true)],
      [(0, 2, false), (3, nil, false), (5, nil, true)],
      [(0, 4, false), (3, nil, true), (5, nil, false)],
      [(0, 1, false), (2, 3, false), (4, nil, false), (6, nil, true)],
    ]
    try await withHarness { harness in
      let template = try harness.buy().transaction
      #expect(try await harness.validate(["signedTransaction": harness.sign(template)]).status == 200)
      for (number, story) in stories.enumerated() {
        let facts = try story.enumerated().map { index, step in
          var fact = try TransactionFact(template)
          fact.originalTransactionID = "9\(number)0"
          fact.transactionID = "9\(number)\(index)"
          fact.kind = .nonConsumable
          fact.purchaseDate += step.bought * 86_400
          fact.revocationDate = step.refunded.map { template.purchaseDate + $0 * 86_400 }
          return fact
        }
        try await harness.store(facts, like: template.transactionId)
        try await harness.expect(story.map(\.isRestored), areRestored: facts)
      }
    }
  }

  @Test func `a restored period of a subscription is recognized by the same rule in SQL and in Swift`()
    async throws
  {
    try await withHarness { harness in
      let template = try harness.buy().transaction
      #expect(try await harness.validate(["signedTransaction": harness.sign(template)]).status == 200)
      func fact(_ id: String, day: Double, _ change: (inout TransactionFact) -> Void = { _ in }) throws
        -> TransactionFact
      {
        var fact = try TransactionFact(template)
        fact.originalTransactionID = "900"
        fact.transactionID = id
        fact.purchaseDate += day * 86_400
        change(&fact)
        return fact
      }
      let facts = try [
        fact("900", day: 0), fact("901", day: 30),
        // Restored before and after an extension, which moves the end of the period.
        fact("902", day: 0), fact("903", day: 30) { $0.expiresDate? += 86_400 },
        // Another product at the same instant, and a member's copy of the purchaser's period.
        fact("904", day: 30) { $0.productID = TestApps.annual },
        fact("905", day: 30) { $0.ownership = "FAMILY_SHARED" },
      ]
      try await harness.store(facts, like: template.transactionId)
      try await harness.expect([false, false, true, true, false, false], areRestored: facts)
    }
  }
}

extension Harness {
  /// Writes rows of `transactions` that differ from a stored one in what the facts say.
  fileprivate func store(_ facts: [TransactionFact], like template: String) async throws {
    for fact in facts {
      _ = try await pool.query(
        """
        INSERT INTO transactions SELECT (jsonb_populate_record(t, jsonb_build_object(
          'transaction_id', \(fact.transactionID)::text, 'original_transaction_id', \(fact.originalTransactionID)::text,
          'kind', \(fact.kind.rawValue)::text, 'product_id', \(fact.productID)::text,
          'ownership', \(fact.ownership)::text, 'purchase_date', \(fact.purchaseDate)::timestamptz,
          'expiry_date', \(fact.expiresDate)::timestamptz, 'revoked_at', \(fact.revocationDate)::timestamptz))).*
        FROM transactions t WHERE t.transaction_id = \(template)
        """)
    }
  }

  /// Asks SQL, the view of support and Swift whether each transaction of a purchase restores it.
  fileprivate func expect(_ expected: [Bool], areRestored facts: [TransactionFact]) async throws {
    let rows = try await pool.query(
      """
      SELECT \(PaidTransaction.isRestored) AS is_restored, v.event FROM transactions t
      JOIN support_transactions v USING (transaction_id)
      WHERE t.original_transaction_id = \(facts[0].originalTransactionID) ORDER BY t.transaction_id
      """)
    #expect(try rows.map { try $0.decode("is_restored", as: Bool.self) } == expected)
    #expect(try rows.map { try $0.decode("event", as: String.self) == "restore" } == expected)
    #expect(facts.map(SubscriptionFacts(transactions: facts).isRestored) == expected)
  }
}
