import AppStore

/// An offer for one period of a subscription.
public struct StoreOffer: Hashable, Sendable {
  /// Introductory, promotional, offer code or win-back.
  public var type: OfferType
  /// Free, or paid up front.
  public var discountType: OfferDiscountType
  /// The length of the period.
  public var period: StorePeriod
  /// The price in milliunits.
  public var price: Int64
  /// `offerIdentifier`; introductory offers have none.
  public var identifier: String?

  /// Makes a discount for one month: a promotional offer, an offer code or a win-back offer.
  public static func discount(
    _ type: OfferType, price: Int64 = 990, period: StorePeriod = .month, identifier: String = "offer"
  ) -> StoreOffer {
    StoreOffer(
      type: type, discountType: .payUpFront, period: period, price: price, identifier: identifier)
  }

  /// Makes a free introductory period, a week by default.
  public static func freeTrial(_ period: StorePeriod = .week) -> StoreOffer {
    StoreOffer(type: .introductoryOffer, discountType: .freeTrial, period: period, price: 0)
  }
}

extension StoreOffer: Decodable {
  private enum Key: CodingKey { case type, period, price, identifier }

  /// Decodes the `offer` of the control API, by default free for a month.
  public init(from decoder: any Decoder) throws {
    let body = try decoder.container(keyedBy: Key.self)
    type = try body.decode(OfferType.self, forKey: .type)
    period = try body.decodeIfPresent(StorePeriod.self, forKey: .period) ?? .month
    price = try body.decodeIfPresent(Int64.self, forKey: .price) ?? 0
    discountType = price == 0 ? .freeTrial : .payUpFront
    identifier = try body.decodeIfPresent(String.self, forKey: .identifier)
    if type != .introductoryOffer, identifier == nil { identifier = "offer" }
  }
}
