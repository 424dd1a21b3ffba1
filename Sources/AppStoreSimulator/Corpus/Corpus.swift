import AppStore
import Foundation
import Platform

/// A generator of signed purchases and renewals, all different, for load tests.
///
/// The renewals of a purchase follow hundreds of notifications later, because in reality no two are under way at once.
/// Purchases are made and released block by block, so that memory use is constant.
public struct Corpus: Sendable {
  /// One notification with its transaction.
  public struct Item: Sendable {
    /// The value for `{"signedPayload": "…"}`.
    public let signedPayload: String
    /// The transaction as a device posts it.
    public let signedTransaction: String
    /// The original transaction id.
    public let originalTransactionID: String
  }

  private let app: StoreApp
  private let productID: String
  private let renewals: Int
  private let namesCustomers: Bool
  private let signer: PayloadSigner
  private let start: Date
  private var random: SplitMix64

  private static let purchasesPerBlock = 500

  /// Makes a corpus of purchases of one product.
  ///
  /// - Parameters:
  ///   - renewals: the number of renewals of each purchase, a month apart.
  ///   - namesCustomers: whether each purchase has an `appAccountToken` of its own.
  ///   - now: a time in the last period of each purchase.
  ///   - seed: determines the purchases.
  public init(
    app: StoreApp, productID: String, renewals: Int, namesCustomers: Bool, signer: PayloadSigner,
    now: Date, seed: UInt64
  ) {
    self.app = app
    self.productID = productID
    self.renewals = renewals
    self.namesCustomers = namesCustomers
    self.signer = signer
    start = now - Double(renewals) * Self.month - 3_600
    random = SplitMix64(state: seed)
  }

  /// At least as long as any month, so that each renewal follows the end of the previous period.
  private static let month: Double = 31 * 86_400

  /// Returns the next purchases, then their first renewals, and so on.
  public mutating func nextBlock() throws -> [Item] {
    var store = SimulatedStore(environment: .production, apps: [app], seed: random.next())
    var items: [Item] = []
    var ids: [String] = []
    for _ in 0..<Self.purchasesPerBlock {
      let token = namesCustomers ? UUID(randomFrom: &random) : nil
      let request = PurchaseRequest(
        bundleID: app.bundleID, productID: productID, appAccountToken: token)
      let outcome = try store.buy(request, at: start)
      ids.append(outcome.originalTransactionID)
      items.append(try item(outcome))
    }
    for period in 1..<max(1, renewals + 1) {
      for id in ids {
        items.append(
          try item(store.perform(.renew, on: id, at: start + Double(period) * Self.month)))
      }
    }
    return items
  }

  private func item(_ outcome: StoreOutcome) throws -> Item {
    let signed = try SignedOutcome(outcome, by: signer)
    return Item(
      signedPayload: signed.notification.signedPayload, signedTransaction: signed.signedTransaction,
      originalTransactionID: signed.originalTransactionID)
  }
}
