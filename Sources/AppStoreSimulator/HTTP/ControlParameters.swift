import AppStore
import Foundation
import HTTP

/// The body of `POST /control/purchases`.
public struct PurchaseParameters: Codable, Sendable {
  /// The app.
  public var bundleID: String
  /// The product.
  public var productID: String
  /// The environment; nil for the server's default.
  public var environment: Environment?
  /// The app's own id of its customer.
  public var appAccountToken: UUID?
  /// The name of the Apple Account; nil for a new one.
  public var account: String?
  /// Whether the purchase begins with the product's introductory offer, or else a free week.
  public var freeTrial: Bool?
  /// The offer for the first period.
  public var offer: OfferParameters?
  /// Whether the notification is `OFFER_REDEEMED` instead of `SUBSCRIBED`.
  public var announcesOffer: Bool?
  /// Bought or shared by a family member; bought by default.
  public var ownership: InAppOwnershipType?
  /// The time of the purchase; now by default.
  public var purchaseDate: Date?
  /// The quantity, for consumables.
  public var quantity: Int?

  /// Makes the parameters of a purchase with defaults for the rest.
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

/// The body of `POST /control/subscriptions/{originalTransactionID}/{command}`. Each command reads its own members.
public struct CommandParameters: Codable, Sendable {
  /// The transaction of a refund; the latest by default.
  public var transactionID: String?
  /// `fail-renewal`: whether billing grace is given; the app's setting by default.
  public var grace: Bool?
  /// `auto-renew`: on or off.
  public var on: Bool?
  /// `change-product`, `redeem`: the new product.
  public var productID: String?
  /// `change-product`: the token of a purchase at once; the previous one by default.
  public var appAccountToken: UUID?
  /// `redeem`: the offer.
  public var offer: OfferParameters?
  /// `share`: the name of the family member's Apple Account; nil for a new one.
  public var account: String?
  /// `expire`, `refund`, `request-consumption`: the reason.
  public var reason: String?
  /// `refund`: the percentage of the price, up to 100.
  public var percentage: Int?
  /// `extend`: the number of days.
  public var days: Int?
  /// `announce-price`: the new price in milliunits.
  public var price: Int64?

  /// Makes an empty body.
  public init() {}
}

/// An offer, for `POST /control/purchases` and `redeem`.
public struct OfferParameters: Codable, Sendable {
  /// `introductory`, `promotional`, `offer-code` or `win-back`.
  public var type: String
  /// Apple's payment mode; by default `FREE_TRIAL` if the price is 0, else `PAY_UP_FRONT`.
  public var discountType: OfferDiscountType?
  /// The length; a month by default.
  public var period: StorePeriod?
  /// In milliunits; 0 by default.
  public var price: Int64?
  /// The id or code of the offer.
  public var identifier: String?

  /// Makes an offer that is free for a month.
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
