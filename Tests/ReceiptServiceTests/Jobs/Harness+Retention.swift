import AppStore
import AppStoreSimulator
import Foundation
import Testing

@testable import ReceiptService

extension Harness {
  /// Buys a subscription at the clock's time, renews it this many times, and cancels it. Every notification arrives.
  /// - Returns: the original transaction id and the transaction ids of the periods.
  func subscription(
    renewals: Int, ends: Bool = true, user: UUID = UUID()
  ) async throws -> (id: String, periods: [String]) {
    let bought = try buy(token: user)
    try await arrives(bought)
    var last = bought
    var periods = [bought.transactionID]
    for _ in 0..<renewals {
      clock.set(try #require(last.transaction.expiresDate))
      last = try await happens(.renew, to: bought.originalTransactionID)
      periods.append(last.transactionID)
    }
    if ends {
      try await happens(.setAutoRenew(false), to: bought.originalTransactionID)
      clock.set(try #require(last.transaction.expiresDate))
      try await happens(.expire(nil), to: bought.originalTransactionID)
    }
    return (bought.originalTransactionID, periods)
  }
}
