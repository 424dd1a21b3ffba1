/// The outcome of an attempt to deliver a notification (`sendAttemptResult`).
public struct SendAttemptResult: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Delivered.
  public static let success = Self(rawValue: "SUCCESS")
  /// The server did not respond in time.
  public static let timedOut = Self(rawValue: "TIMED_OUT")
  /// The TLS connection failed.
  public static let tlsIssue = Self(rawValue: "TLS_ISSUE")
  /// The server did not respond.
  public static let noResponse = Self(rawValue: "NO_RESPONSE")
  /// The connection failed.
  public static let socketIssue = Self(rawValue: "SOCKET_ISSUE")
  /// The response is not HTTP.
  public static let invalidResponse = Self(rawValue: "INVALID_RESPONSE")
  /// The status of the response is not a success.
  public static let unsuccessfulHTTPResponseCode = Self(rawValue: "UNSUCCESSFUL_HTTP_RESPONSE_CODE")
  /// Another outcome.
  public static let other = Self(rawValue: "OTHER")
}

/// Whether an order is known (`status` of Look Up Order ID).
public struct OrderLookupStatus: OpenValue {
  /// The value on the wire.
  public let rawValue: Int32

  /// Accepts any value, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// The order is known.
  public static let valid = Self(rawValue: 0)
  /// It is not.
  public static let invalid = Self(rawValue: 1)
}

/// Whether the product was delivered (`deliveryStatus` of a consumption request).
public struct DeliveryStatus: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// Delivered in working order.
  public static let delivered = Self(rawValue: "DELIVERED")
  /// Delivered, but not in working order.
  public static let undeliveredQualityIssue = Self(rawValue: "UNDELIVERED_QUALITY_ISSUE")
  /// Another product was delivered.
  public static let undeliveredWrongItem = Self(rawValue: "UNDELIVERED_WRONG_ITEM")
  /// Not delivered: a server was down.
  public static let undeliveredServerOutage = Self(rawValue: "UNDELIVERED_SERVER_OUTAGE")
  /// Not delivered for another reason.
  public static let undeliveredOther = Self(rawValue: "UNDELIVERED_OTHER")
}

/// The developer's preference about a refund (`refundPreference`).
public struct RefundPreference: OpenValue {
  /// The value on the wire.
  public let rawValue: String

  /// Accepts any value, known or not.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// No refund.
  public static let decline = Self(rawValue: "DECLINE")
  /// A full refund.
  public static let grantFull = Self(rawValue: "GRANT_FULL")
  /// A refund in proportion to the unused share.
  public static let grantProrated = Self(rawValue: "GRANT_PRORATED")
}

/// The reason of an extension (`extendReasonCode`).
public struct ExtendReasonCode: OpenValue {
  /// The value on the wire.
  public let rawValue: Int32

  /// Accepts any value, known or not.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// Customer satisfaction.
  public static let customerSatisfaction = Self(rawValue: 1)
  /// Another reason.
  public static let other = Self(rawValue: 2)
}
