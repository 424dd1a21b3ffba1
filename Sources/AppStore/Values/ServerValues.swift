/// What came of an attempt to deliver a notification (`sendAttemptResult`).
public struct SendAttemptResult: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Delivered.
  public static let success = Self(rawValue: "SUCCESS")
  /// The server did not answer in time.
  public static let timedOut = Self(rawValue: "TIMED_OUT")
  /// No TLS connection.
  public static let tlsIssue = Self(rawValue: "TLS_ISSUE")
  /// Redirected in a circle.
  public static let circularRedirect = Self(rawValue: "CIRCULAR_REDIRECT")
  /// The server did not answer.
  public static let noResponse = Self(rawValue: "NO_RESPONSE")
  /// The connection failed.
  public static let socketIssue = Self(rawValue: "SOCKET_ISSUE")
  /// The answer's character set is not supported.
  public static let unsupportedCharset = Self(rawValue: "UNSUPPORTED_CHARSET")
  /// The answer is not HTTP.
  public static let invalidResponse = Self(rawValue: "INVALID_RESPONSE")
  /// The server closed the connection while Apple was sending.
  public static let prematureClose = Self(rawValue: "PREMATURE_CLOSE")
  /// The server answered with a status that does not mean delivered.
  public static let unsuccessfulHTTPResponseCode = Self(rawValue: "UNSUCCESSFUL_HTTP_RESPONSE_CODE")
  /// Something else.
  public static let other = Self(rawValue: "OTHER")
}

/// Whether an order is known (`status` of Look Up Order ID).
public struct OrderLookupStatus: OpenValue {
  /// The number on the wire.
  public let rawValue: Int32

  /// Takes any number, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// The order is known.
  public static let valid = Self(rawValue: 0)
  /// It is not.
  public static let invalid = Self(rawValue: 1)
}

/// Whether what was bought was delivered (`deliveryStatus` of a consumption request).
public struct DeliveryStatus: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Delivered in working order.
  public static let delivered = Self(rawValue: "DELIVERED")
  /// Delivered, but not in working order.
  public static let undeliveredQualityIssue = Self(rawValue: "UNDELIVERED_QUALITY_ISSUE")
  /// Something else was delivered.
  public static let undeliveredWrongItem = Self(rawValue: "UNDELIVERED_WRONG_ITEM")
  /// Not delivered: a server was down.
  public static let undeliveredServerOutage = Self(rawValue: "UNDELIVERED_SERVER_OUTAGE")
  /// Not delivered for another reason.
  public static let undeliveredOther = Self(rawValue: "UNDELIVERED_OTHER")
}

/// What the developer would like Apple to do about a refund (`refundPreference`).
public struct RefundPreference: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// No refund.
  public static let decline = Self(rawValue: "DECLINE")
  /// All of it.
  public static let grantFull = Self(rawValue: "GRANT_FULL")
  /// In proportion to what was not consumed.
  public static let grantProrated = Self(rawValue: "GRANT_PRORATED")
}

/// Why renewal dates are extended (`extendReasonCode`).
public struct ExtendReasonCode: OpenValue {
  /// The number on the wire.
  public let rawValue: Int32

  /// Takes any number, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// Not said.
  public static let undeclared = Self(rawValue: 0)
  /// To please the customer.
  public static let customerSatisfaction = Self(rawValue: 1)
  /// Another reason.
  public static let other = Self(rawValue: 2)
  /// The service was down.
  public static let serviceIssueOrOutage = Self(rawValue: 3)
}

/// Kinds of products as the transaction history's query spells them (`productType`).
public struct HistoryProductType: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Auto-renewable subscriptions.
  public static let autoRenewable = Self(rawValue: "AUTO_RENEWABLE")
  /// Non-renewing subscriptions.
  public static let nonRenewable = Self(rawValue: "NON_RENEWABLE")
  /// Consumables.
  public static let consumable = Self(rawValue: "CONSUMABLE")
  /// Non-consumables.
  public static let nonConsumable = Self(rawValue: "NON_CONSUMABLE")
}

/// The order of the transaction history, by modification date (`sort`).
public struct HistoryOrder: OpenValue {
  /// The word on the wire.
  public let rawValue: String

  /// Takes any word, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Oldest first.
  public static let ascending = Self(rawValue: "ASCENDING")
  /// Newest first.
  public static let descending = Self(rawValue: "DESCENDING")
}
