import FoundationEssentials

/// Which transactions of a customer to list (query of Get Transaction History). Nothing set lists all.
public struct TransactionHistoryRequest: Hashable, Sendable {
  /// Only what was bought at or after this.
  public var startDate: Date?
  /// Only what was bought before this.
  public var endDate: Date?
  /// Only these products.
  public var productIds: [String] = []
  /// Only these kinds of products.
  public var productTypes: [HistoryProductType] = []
  /// By modification date, oldest first unless said otherwise.
  public var sort: HistoryOrder?
  /// Only these subscription groups.
  public var subscriptionGroupIdentifiers: [String] = []
  /// Only what the customer bought, or only what the family shares.
  public var inAppOwnershipType: InAppOwnershipType?
  /// Only what was revoked, or only what was not.
  public var revoked: Bool?

  /// Nothing set.
  public init() {}

  func query(revision: String?) -> [(String, String)] {
    var query: [(String, String)] = []
    func add(_ name: String, _ value: (any CustomStringConvertible)?) {
      if let value { query.append((name, value.description)) }
    }
    add("revision", revision)
    add("startDate", startDate?.millisecondsSince1970)
    add("endDate", endDate?.millisecondsSince1970)
    productIds.forEach { add("productId", $0) }
    productTypes.forEach { add("productType", $0) }
    add("sort", sort)
    subscriptionGroupIdentifiers.forEach { add("subscriptionGroupIdentifier", $0) }
    add("inAppOwnershipType", inAppOwnershipType)
    add("revoked", revoked)
    return query
  }
}

/// Which notifications to list (body of Get Notification History). By type or by transaction, not by both.
public struct NotificationHistoryRequest: Codable, Hashable, Sendable {
  /// From when.
  @Milliseconds public var startDate: Date
  /// Until when.
  @Milliseconds public var endDate: Date
  /// Only this type.
  public var notificationType: NotificationType?
  /// Only this subtype of the type.
  public var notificationSubtype: Subtype?
  /// Only the customer of this transaction.
  public var transactionId: String?
  /// Only what did not reach the server.
  public var onlyFailures: Bool?

  /// All notifications of a time.
  public init(startDate: Date, endDate: Date) {
    self.startDate = startDate
    self.endDate = endDate
  }
}

/// How much was consumed of what the customer wants refunded (body of Send Consumption Information).
public struct ConsumptionRequest: Codable, Hashable, Sendable {
  /// Whether the customer agreed that this is sent. Without consent it must not be sent.
  public var customerConsented: Bool
  /// How much was consumed, in thousandths of a percent.
  public var consumptionPercentage: Int32?
  /// Whether it was delivered in working order.
  public var deliveryStatus: DeliveryStatus
  /// What the developer would like Apple to do.
  public var refundPreference: RefundPreference?
  /// Whether the customer could try it before the purchase.
  public var sampleContentProvided: Bool

  /// A request with what Apple requires; the rest is set afterwards.
  public init(customerConsented: Bool, deliveryStatus: DeliveryStatus, sampleContentProvided: Bool) {
    self.customerConsented = customerConsented
    self.deliveryStatus = deliveryStatus
    self.sampleContentProvided = sampleContentProvided
  }
}

/// How far to extend one subscription (body of Extend a Subscription Renewal Date).
public struct ExtendRenewalDateRequest: Codable, Hashable, Sendable {
  /// How many days, 1 to 90.
  public var extendByDays: Int32
  /// Why.
  public var extendReasonCode: ExtendReasonCode
  /// An id of this request, so that it is not carried out twice; up to 128 characters.
  public var requestIdentifier: String

  /// A request with all its fields.
  public init(extendByDays: Int32, extendReasonCode: ExtendReasonCode, requestIdentifier: String) {
    self.extendByDays = extendByDays
    self.extendReasonCode = extendReasonCode
    self.requestIdentifier = requestIdentifier
  }
}

/// How far to extend all active subscriptions of a product (body of Extend Subscription Renewal Dates for All
/// Active Subscribers).
public struct MassExtendRenewalDateRequest: Codable, Hashable, Sendable {
  /// How many days, 1 to 90.
  public var extendByDays: Int32
  /// Why.
  public var extendReasonCode: ExtendReasonCode
  /// An id of this request, so that it is not carried out twice; up to 128 characters.
  public var requestIdentifier: String
  /// Only these storefronts, as ISO 3166-1 alpha-3 codes.
  public var storefrontCountryCodes: [String]?
  /// The product.
  public var productId: String

  /// A request for all storefronts.
  public init(
    productId: String, extendByDays: Int32, extendReasonCode: ExtendReasonCode, requestIdentifier: String
  ) {
    self.productId = productId
    self.extendByDays = extendByDays
    self.extendReasonCode = extendReasonCode
    self.requestIdentifier = requestIdentifier
  }
}

/// The customer's id to set on a purchase (body of Set App Account Token).
public struct UpdateAppAccountTokenRequest: Codable, Hashable, Sendable {
  /// The customer's id.
  public var appAccountToken: UUID

  /// A request.
  public init(appAccountToken: UUID) { self.appAccountToken = appAccountToken }
}
