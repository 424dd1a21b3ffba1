import Foundation

/// The error of a call of the App Store Server API.
public enum AppStoreServerError: Error, Sendable {
  /// The store refused the request, also after the retries that Apple advises.
  case rejected(Rejection)
  /// 401 without JSON. The store answers so for an invalid token, and production also for an app that was never
  /// released.
  case unauthorizedWithoutJSON
  /// Neither production nor the sandbox knows the transaction.
  case transactionNotFound
  /// The sandbox does not know the transaction, and production answered 401 without JSON, so it may know it.
  case answeredBySandboxAlone
  /// No response arrived.
  case transport(any Error)
  /// The response is not one of the API.
  case undecodableAnswer(status: Int, detail: String)
  /// An argument cannot be part of a request, such as a transaction id with other characters than digits. The text
  /// names the argument.
  case invalidArgument(String)
  /// The bearer token could not be signed.
  case tokenNotSigned(any Error)
  /// No request was sent, because the call would have waited for Apple's rate longer than its timeout. A permit may be
  /// free after this time.
  case overloaded(retryAfter: Duration)
  /// No request was sent, because the circuit is open. The next probe follows after this time.
  case circuitOpen(retryAfter: Duration)

  /// The store's refusal.
  public struct Rejection: Hashable, Sendable {
    /// The HTTP status.
    public let status: Int
    /// `errorCode`; nil if the body is not the API's JSON, for instance the page of a proxy.
    public let code: AppStoreErrorCode?
    /// `errorMessage`.
    public let message: String?
    /// The end of the wait. The API's `Retry-After` is a UNIX time in milliseconds, not a number of seconds.
    public let retryAfter: Date?

    /// Whether the rate limit was exceeded.
    var isRateLimit: Bool { status == 429 || code == .rateLimitExceeded }

    var isRetryable: Bool { code?.isRetryable ?? (status >= 500 || status == 429) }
  }

  /// The store's error code, if it gave one.
  public var code: AppStoreErrorCode? {
    if case .rejected(let rejection) = self { rejection.code } else { nil }
  }

  /// The time after which to call again, if it is known.
  public var retryAfter: Duration? {
    switch self {
    case .overloaded(let wait), .circuitOpen(let wait): wait
    default: nil
    }
  }

  /// Whether the same call may succeed later: Apple's code says so, the rate limit was exceeded, the server failed
  /// without a code, or no response arrived.
  public var isRetryable: Bool {
    switch self {
    case .rejected(let rejection): rejection.isRetryable
    case .answeredBySandboxAlone, .transport, .overloaded, .circuitOpen: true
    case .undecodableAnswer, .unauthorizedWithoutJSON, .transactionNotFound, .invalidArgument,
      .tokenNotSigned:
      false
    }
  }
}

/// An error code of the App Store Server API (`errorCode`). The first three digits are the HTTP status.
public struct AppStoreErrorCode: OpenValue {
  /// The value on the wire.
  public let rawValue: Int64

  /// Accepts any value, known or not.
  public init(rawValue: Int64) { self.rawValue = rawValue }

  /// Whether the same request may succeed later: Apple's name for the code says so, or it is the rate limit or a
  /// general failure, for which Apple advises to try again later.
  public var isRetryable: Bool {
    switch self {
    case .accountNotFoundRetryable, .appNotFoundRetryable, .originalTransactionIdNotFoundRetryable,
      .generalInternalRetryable, .generalInternal, .rateLimitExceeded:
      true
    default: false
    }
  }
}

extension AppStoreErrorCode {
  /// Whether the environment does not know the transaction or its customer, and will not know it later.
  public var meansUnknown: Bool { [.transactionIdNotFound, .accountNotFound].contains(self) }
}

// MARK: 400: the request is wrong

extension AppStoreErrorCode {
  /// Something about the request is wrong.
  public static let generalBadRequest = Self(rawValue: 4_000_000)
  /// The revision is not valid.
  public static let invalidRequestRevision = Self(rawValue: 4_000_005)
  /// The transaction id is not valid.
  public static let invalidTransactionId = Self(rawValue: 4_000_006)
  /// The original transaction id is not valid.
  public static let invalidOriginalTransactionId = Self(rawValue: 4_000_008)
  /// The number of days is not within 1 to 90.
  public static let invalidExtendByDays = Self(rawValue: 4_000_009)
  /// The reason for the extension is not valid.
  public static let invalidExtendReasonCode = Self(rawValue: 4_000_010)
  /// The request identifier is not valid.
  public static let invalidRequestIdentifier = Self(rawValue: 4_000_011)
  /// The start date is before what the history reaches.
  public static let startDateTooFarInPast = Self(rawValue: 4_000_012)
  /// The end date is before the start date.
  public static let startDateAfterEndDate = Self(rawValue: 4_000_013)
  /// The pagination token is not valid.
  public static let invalidPaginationToken = Self(rawValue: 4_000_014)
  /// The start date is not valid.
  public static let invalidStartDate = Self(rawValue: 4_000_015)
  /// The end date is not valid.
  public static let invalidEndDate = Self(rawValue: 4_000_016)
  /// The notification type or subtype is not valid.
  public static let invalidNotificationType = Self(rawValue: 4_000_018)
  /// Both notification type and transaction id were given.
  public static let multipleFiltersSupplied = Self(rawValue: 4_000_019)
  /// The token of the test notification is not valid.
  public static let invalidTestNotificationToken = Self(rawValue: 4_000_020)
  /// The order is not valid.
  public static let invalidSort = Self(rawValue: 4_000_021)
  /// The product type is not valid.
  public static let invalidProductType = Self(rawValue: 4_000_022)
  /// The product id is not valid.
  public static let invalidProductId = Self(rawValue: 4_000_023)
  /// The subscription group is not valid.
  public static let invalidSubscriptionGroupIdentifier = Self(rawValue: 4_000_024)
  /// The ownership type is not valid.
  public static let invalidInAppOwnershipType = Self(rawValue: 4_000_026)
  /// The list of storefronts is empty.
  public static let invalidEmptyStorefrontCountryCodeList = Self(rawValue: 4_000_027)
  /// A storefront is not valid.
  public static let invalidStorefrontCountryCode = Self(rawValue: 4_000_028)
  /// The parameter revoked is not valid.
  public static let invalidRevoked = Self(rawValue: 4_000_030)
  /// The status is not valid.
  public static let invalidStatus = Self(rawValue: 4_000_031)
  /// The customer did not consent, or it was not said.
  public static let invalidCustomerConsented = Self(rawValue: 4_000_035)
  /// The delivery status is not valid.
  public static let invalidDeliveryStatus = Self(rawValue: 4_000_036)
  /// The statement on sample content is not valid.
  public static let invalidSampleContentProvided = Self(rawValue: 4_000_041)
  /// An app transaction id was given where a transaction id belongs.
  public static let appTransactionIdNotSupported = Self(rawValue: 4_000_048)
  /// The app account token is not a UUID.
  public static let invalidAppAccountTokenUUID = Self(rawValue: 4_000_183)
  /// The request is not for what the family shares.
  public static let familyTransactionNotSupported = Self(rawValue: 4_000_185)
  /// The transaction id is not that of an original transaction.
  public static let transactionIdNotOriginalTransactionId = Self(rawValue: 4_000_187)
}

// MARK: 403: not allowed

extension AppStoreErrorCode {
  /// The subscription cannot be extended.
  public static let subscriptionExtensionIneligible = Self(rawValue: 4_030_004)
  /// The subscription was extended as often as is allowed.
  public static let subscriptionMaxExtension = Self(rawValue: 4_030_005)
  /// What the family shares cannot be extended.
  public static let familySharedSubscriptionExtensionIneligible = Self(rawValue: 4_030_007)
}

// MARK: 404: not known

extension AppStoreErrorCode {
  /// The Apple Account is not known.
  public static let accountNotFound = Self(rawValue: 4_040_001)
  /// The Apple Account is not known at the moment; try again.
  public static let accountNotFoundRetryable = Self(rawValue: 4_040_002)
  /// The app is not known.
  public static let appNotFound = Self(rawValue: 4_040_003)
  /// The app is not known at the moment; try again.
  public static let appNotFoundRetryable = Self(rawValue: 4_040_004)
  /// The original transaction is not known.
  public static let originalTransactionIdNotFound = Self(rawValue: 4_040_005)
  /// The original transaction is not known at the moment; try again.
  public static let originalTransactionIdNotFoundRetryable = Self(rawValue: 4_040_006)
  /// The app has no URL for notifications.
  public static let serverNotificationUrlNotFound = Self(rawValue: 4_040_007)
  /// The test notification is not known, or too old.
  public static let testNotificationNotFound = Self(rawValue: 4_040_008)
  /// The extension of renewal dates is not known.
  public static let statusRequestNotFound = Self(rawValue: 4_040_009)
  /// The transaction is not known in this environment.
  public static let transactionIdNotFound = Self(rawValue: 4_040_010)
}

// MARK: 429: too many

extension AppStoreErrorCode {
  /// Too many requests; `Retry-After` says until when to wait.
  public static let rateLimitExceeded = Self(rawValue: 4_290_000)
}

// MARK: 500: the store failed

extension AppStoreErrorCode {
  /// The store failed; try again later.
  public static let generalInternal = Self(rawValue: 5_000_000)
  /// The store failed; try again.
  public static let generalInternalRetryable = Self(rawValue: 5_000_001)
}
