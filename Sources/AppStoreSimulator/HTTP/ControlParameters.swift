import AppStore
import FoundationEssentials
import HTTP

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
  /// The offer for the first period.
  public var offer: OfferParameters?
  /// Whether that is announced by `OFFER_REDEEMED` and not by `SUBSCRIBED`.
  public var announcesOffer: Bool?
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

  func request(introductoryOffer: StoreOffer?) throws(Problem) -> PurchaseRequest {
    PurchaseRequest(
      bundleID: bundleID, productID: productID, accountID: account, appAccountToken: appAccountToken,
      offer: try offer?.storeOffer() ?? (freeTrial == true ? introductoryOffer ?? .freeTrial() : nil),
      announcesOffer: announcesOffer ?? false, ownership: ownership ?? .purchased, purchaseDate: purchaseDate,
      quantity: quantity ?? 1)
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
  /// `change-product`, `redeem`: the other product.
  public var productID: String?
  /// `change-product`: the token of what is bought at once; the one before by default.
  public var appAccountToken: UUID?
  /// `redeem`: the offer.
  public var offer: OfferParameters?
  /// `share`: the family member's Apple Account, by any name; nil for a new one.
  public var account: String?
  /// `expire`, `refund`, `request-consumption`: why.
  public var reason: String?
  /// `refund`: how much of the price, up to 100.
  public var percentage: Int?
  /// `extend`: by how much.
  public var days: Int?
  /// `announce-price`, `change-price`: the new price in milliunits.
  public var price: Int64?

  /// No parameters.
  public init() {}
}

/// An offer, for `POST /control/purchases` and `redeem`.
public struct OfferParameters: Codable, Sendable {
  /// `introductory`, `promotional`, `offer-code` or `win-back`.
  public var type: String
  /// Apple's word for how it is paid; `PAY_UP_FRONT` by default, `FREE_TRIAL` where the price is 0.
  public var discountType: OfferDiscountType?
  /// How long it lasts; a month by default.
  public var period: StorePeriod?
  /// In milliunits; 0 by default.
  public var price: Int64?
  /// Its id or code.
  public var identifier: String?

  /// An offer that is free for a month.
  public init(type: String) {
    self.type = type
  }

  func storeOffer() throws(Problem) -> StoreOffer {
    let types: [String: OfferType] = [
      "introductory": .introductoryOffer, "promotional": .promotionalOffer, "offer-code": .offerCode,
      "win-back": .winBackOffer,
    ]
    guard let type = types[type] else {
      throw .invalidRequest("'offer.type' must be introductory, promotional, offer-code or win-back.")
    }
    let price = price ?? 0
    return StoreOffer(
      type: type, discountType: discountType ?? (price == 0 ? .freeTrial : .payUpFront),
      period: period ?? .month, price: price,
      identifier: type == .introductoryOffer ? nil : identifier ?? "offer")
  }
}
