import Foundation

/// The time range of the notifications to list (body of Get Notification History).
public struct NotificationHistoryRequest: Codable, Hashable, Sendable {
  /// The start of the range.
  @Milliseconds public var startDate: Date
  /// The end of the range.
  @Milliseconds public var endDate: Date

  /// Lists all notifications of a time range.
  public init(startDate: Date, endDate: Date) {
    self.startDate = startDate
    self.endDate = endDate
  }
}

/// The consumption of a purchase whose refund the customer requests (body of Send Consumption Information).
public struct ConsumptionRequest: Codable, Hashable, Sendable {
  /// Whether the customer agreed to sending this. It must not be sent without consent.
  public var customerConsented: Bool
  /// The consumed share, in thousandths of a percent.
  public var consumptionPercentage: Int32?
  /// Whether the purchase was delivered in working order.
  public var deliveryStatus: DeliveryStatus
  /// The developer's preference for Apple's decision.
  public var refundPreference: RefundPreference?
  /// Whether the customer could try the product before the purchase.
  public var sampleContentProvided: Bool

  /// Makes a request with the members that Apple requires.
  public init(customerConsented: Bool, deliveryStatus: DeliveryStatus, sampleContentProvided: Bool) {
    self.customerConsented = customerConsented
    self.deliveryStatus = deliveryStatus
    self.sampleContentProvided = sampleContentProvided
  }
}

/// The extension of one subscription (body of Extend a Subscription Renewal Date).
public struct ExtendRenewalDateRequest: Codable, Hashable, Sendable {
  /// The number of days, 1 to 90.
  public var extendByDays: Int32
  /// The reason.
  public var extendReasonCode: ExtendReasonCode
  /// The idempotency key of this request; up to 128 characters.
  public var requestIdentifier: String

  /// Makes a request with all its members.
  public init(extendByDays: Int32, extendReasonCode: ExtendReasonCode, requestIdentifier: String) {
    self.extendByDays = extendByDays
    self.extendReasonCode = extendReasonCode
    self.requestIdentifier = requestIdentifier
  }
}

/// The extension of all active subscriptions of a product (body of Extend Subscription Renewal Dates for All
/// Active Subscribers).
public struct MassExtendRenewalDateRequest: Codable, Hashable, Sendable {
  /// The number of days, 1 to 90.
  public var extendByDays: Int32
  /// The reason.
  public var extendReasonCode: ExtendReasonCode
  /// The idempotency key of this request; up to 128 characters.
  public var requestIdentifier: String
  /// The storefronts, as ISO 3166-1 alpha-3 codes; nil for all.
  public var storefrontCountryCodes: [String]?
  /// The product.
  public var productId: String

  /// Makes a request for all storefronts.
  public init(
    productId: String, extendByDays: Int32, extendReasonCode: ExtendReasonCode, requestIdentifier: String
  ) {
    self.productId = productId
    self.extendByDays = extendByDays
    self.extendReasonCode = extendReasonCode
    self.requestIdentifier = requestIdentifier
  }
}

/// The customer id to set on a purchase (body of Set App Account Token).
public struct UpdateAppAccountTokenRequest: Codable, Hashable, Sendable {
  /// The app's own id of the customer.
  public var appAccountToken: UUID

  /// Makes a request.
  public init(appAccountToken: UUID) { self.appAccountToken = appAccountToken }
}
