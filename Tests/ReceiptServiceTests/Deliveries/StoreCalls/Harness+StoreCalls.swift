import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService

/// A row of `store_calls`.
struct StoreCallRow: Equatable, Sendable {
  var kind: String
  var outcome: String?
  var attempts: Int
}

extension Harness {
  /// The test configuration with keys for the app with users.
  static func apps(_ keys: String) -> String {
    TestApps.json.replacing(#""customer": "user","#, with: #""customer": "user", \#(keys),"#)
  }

  /// The queue of calls, oldest first.
  func storeCalls() async throws -> [StoreCallRow] {
    try await pool.query("SELECT kind, outcome, attempts FROM store_calls ORDER BY id").map {
      StoreCallRow(
        kind: try $0.decode("kind"), outcome: try $0.decode("outcome"), attempts: try $0.decode("attempts"))
    }
  }

  /// A customer's word on the consent.
  func consent(_ isGiven: Bool, of user: UUID) async throws -> Answer {
    try await send(
      .post, "/api/v1/consent", json: #"{"consent": \#(isGiven), "bundleID": "\#(TestApps.climbing)"}"#,
      token: try await token(for: user))
  }

  /// The customer requests a refund of the latest transaction.
  @discardableResult
  func requestsRefund(
    of bought: SignedOutcome, reason: ConsumptionRequestReason = .unintendedPurchase
  ) async throws -> SignedOutcome {
    try await happens(
      .requestConsumption(transactionID: nil, reason: reason), to: bought.originalTransactionID)
  }

  /// The records of answers about refunds.
  func refundRecords() async throws -> [String] {
    try await pool.query(
      "SELECT by || ': ' || reason AS record FROM support_actions WHERE action = 'refund-answer' ORDER BY id"
    ).map { try $0.decode("record") }
  }
}
