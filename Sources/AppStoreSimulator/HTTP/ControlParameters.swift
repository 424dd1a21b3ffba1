import AppStore
import FoundationEssentials

/// The body of `POST /control/purchases`.
public struct PurchaseParameters: Codable, Sendable {
  /// The app.
  public var bundleID: String
  /// What is bought.
  public var productID: String
  /// Production or sandbox; nil for the server's default.
  public var environment: Environment?
  /// The app's own id of its customer.
  public var appAccountToken: UUID?
  /// The Apple Account, by any name; nil for a new one.
  public var account: String?
  /// Whether the product's introductory offer, or else a free week, comes first.
  public var freeTrial: Bool?
  /// Bought or shared by the family; bought by default.
  public var ownership: InAppOwnershipType?
  /// When it was bought; now by default.
  public var purchaseDate: Date?
  /// How many, of consumables.
  public var quantity: Int?

  /// A purchase with defaults for everything else.
  public init(bundleID: String, productID: String) {
    self.bundleID = bundleID
    self.productID = productID
  }

  func request(introductoryOffer: StoreOffer?) -> PurchaseRequest {
    PurchaseRequest(
      bundleID: bundleID, productID: productID, accountID: account, appAccountToken: appAccountToken,
      offer: freeTrial == true ? introductoryOffer ?? .freeTrial() : nil,
      ownership: ownership ?? .purchased, purchaseDate: purchaseDate, quantity: quantity ?? 1)
  }
}

/// The body of `POST /control/subscriptions/{originalTransactionID}/{command}`: each command reads its own.
public struct CommandParameters: Codable, Sendable {
  /// The transaction that a refund is about; the latest by default.
  public var transactionID: String?
  /// `fail-renewal`: whether billing grace is given; by the app's setting if nil.
  public var grace: Bool?
  /// `auto-renew`: on or off.
  public var on: Bool?
  /// `change-product`: the other product.
  public var productID: String?
  /// `expire`, `refund`, `request-consumption`: why.
  public var reason: String?
  /// `refund`: how much of the price, up to 100.
  public var percentage: Int?
  /// `extend`: by how much.
  public var days: Int?
  /// `announce-price`: the new price in milliunits.
  public var price: Int64?

  /// No parameters.
  public init() {}
}
