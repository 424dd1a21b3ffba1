import AppStore
import FoundationEssentials

/// What the App Store would send in a busy hour: any number of purchases with their renewals, all different and
/// all signed, for measuring a server.
///
/// The renewals of a purchase come some hundred notifications after it, as no two of them are ever under way at
/// once in reality. Purchases are made block by block and then forgotten, so that the memory does not grow with
/// the number.
public struct Corpus: Sendable {
  /// One notification and what it is about.
  public struct Item: Sendable {
    /// What stands in `{"signedPayload": "…"}`.
    public let signedPayload: String
    /// The transaction in it, as a device would post it.
    public let signedTransaction: String
    /// The purchase.
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

  /// A corpus of purchases of one product.
  ///
  /// - Parameters:
  ///   - renewals: how many follow each purchase, a month apart.
  ///   - namesCustomers: whether each purchase carries an `appAccountToken` of its own.
  ///   - now: in the last period of each purchase.
  ///   - seed: another one gives other purchases.
  public init(
    app: StoreApp, productID: String, renewals: Int, namesCustomers: Bool, signer: PayloadSigner,
    now: Date, seed: UInt64
  ) {
    self.app = app
    self.productID = productID
    self.renewals = renewals
    self.namesCustomers = namesCustomers
    self.signer = signer
    start = now - Double(renewals) * Self.month - 86_400
    random = SplitMix64(state: seed)
  }

  /// Not shorter than any month, so that each renewal follows the end of the period before it.
  private static let month: Double = 31 * 86_400

  /// The next purchases, then their first renewals, and so on.
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
