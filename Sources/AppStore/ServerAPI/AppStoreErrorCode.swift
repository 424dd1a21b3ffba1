/// Why the App Store Server API said no (`errorCode`). The first three digits are the HTTP status.
public struct AppStoreErrorCode: OpenValue {
  /// The number on the wire.
  public let rawValue: Int64

  /// Takes any number, known or not.
  public init(rawValue: Int64) { self.rawValue = rawValue }

  /// Whether the same request may succeed later: where Apple's name for the code says so, at the rate limit,
  /// and at a general failure, of which Apple says to try again later.
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
  /// Whether it says that a transaction, or whoever bought it, is not known in this environment, and will not be.
  public var meansUnknown: Bool { [.transactionIdNotFound, .accountNotFound].contains(self) }
}

// MARK: 400: the request is wrong

extension AppStoreErrorCode {
  /// Something about the request is wrong.
  public static let generalBadRequest = Self(rawValue: 4_000_000)
  /// The app id is not valid.
  public static let invalidAppIdentifier = Self(rawValue: 4_000_002)
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
  /// The pagination token is too old.
  public static let paginationTokenExpired = Self(rawValue: 4_000_017)
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
  /// The parameter excludeRevoked is not valid.
  public static let invalidExcludeRevoked = Self(rawValue: 4_000_025)
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
  /// The account tenure is not valid.
  public static let invalidAccountTenure = Self(rawValue: 4_000_032)
  /// The app account token is not valid.
  public static let invalidAppAccountToken = Self(rawValue: 4_000_033)
  /// The consumption status is not valid.
  public static let invalidConsumptionStatus = Self(rawValue: 4_000_034)
  /// The customer did not consent, or it was not said.
  public static let invalidCustomerConsented = Self(rawValue: 4_000_035)
  /// The delivery status is not valid.
  public static let invalidDeliveryStatus = Self(rawValue: 4_000_036)
  /// The amount purchased is not valid.
  public static let invalidLifetimeDollarsPurchased = Self(rawValue: 4_000_037)
  /// The amount refunded is not valid.
  public static let invalidLifetimeDollarsRefunded = Self(rawValue: 4_000_038)
  /// The platform is not valid.
  public static let invalidPlatform = Self(rawValue: 4_000_039)
  /// The play time is not valid.
  public static let invalidPlayTime = Self(rawValue: 4_000_040)
  /// The statement on sample content is not valid.
  public static let invalidSampleContentProvided = Self(rawValue: 4_000_041)
  /// The user status is not valid.
  public static let invalidUserStatus = Self(rawValue: 4_000_042)
  /// The transaction is not a consumable. Deprecated by Apple.
  public static let invalidTransactionNotConsumable = Self(rawValue: 4_000_043)
  /// The kind of product does not support the request.
  public static let invalidTransactionTypeNotSupported = Self(rawValue: 4_000_047)
  /// An app transaction id was given where a transaction id belongs.
  public static let appTransactionIdNotSupported = Self(rawValue: 4_000_048)
  /// Retention messaging: the image is not valid.
  public static let invalidImage = Self(rawValue: 4_000_161)
  /// Retention messaging: the header is too long.
  public static let headerTooLong = Self(rawValue: 4_000_162)
  /// Retention messaging: the body is too long.
  public static let bodyTooLong = Self(rawValue: 4_000_163)
  /// Retention messaging: the locale is not valid.
  public static let invalidLocale = Self(rawValue: 4_000_164)
  /// Retention messaging: the alternative text is too long.
  public static let altTextTooLong = Self(rawValue: 4_000_175)
  /// The app account token is not a UUID.
  public static let invalidAppAccountTokenUUID = Self(rawValue: 4_000_183)
  /// The request is not for what the family shares.
  public static let familyTransactionNotSupported = Self(rawValue: 4_000_185)
  /// The transaction id is not that of an original transaction.
  public static let transactionIdNotOriginalTransactionId = Self(rawValue: 4_000_187)
  /// Retention messaging: the performance test is not valid.
  public static let invalidPerformanceTestRequest = Self(rawValue: 4_000_211)
  /// Retention messaging: the request id is not valid.
  public static let invalidRequestId = Self(rawValue: 4_000_212)
  /// Retention messaging: a performance test is running.
  public static let existingPerformanceTestRun = Self(rawValue: 4_000_213)
  /// Retention messaging: the URL is not valid.
  public static let badRequestRealtimeUrl = Self(rawValue: 4_000_215)
  /// Retention messaging: the image size is not valid.
  public static let badRequestImageSize = Self(rawValue: 4_000_216)
  /// Retention messaging: there are too many bullet points.
  public static let badRequestTooManyBulletPoints = Self(rawValue: 4_000_218)
  /// Retention messaging: a bullet point is too long.
  public static let badRequestBulletPointTextTooLong = Self(rawValue: 4_000_219)
  /// Retention messaging: the header is above an image that is missing.
  public static let badRequestAboveImageRequiresAnImage = Self(rawValue: 4_000_224)
}

// MARK: 403: not allowed

extension AppStoreErrorCode {
  /// The subscription cannot be extended.
  public static let subscriptionExtensionIneligible = Self(rawValue: 4_030_004)
  /// The subscription was extended as often as is allowed.
  public static let subscriptionMaxExtension = Self(rawValue: 4_030_005)
  /// What the family shares cannot be extended.
  public static let familySharedSubscriptionExtensionIneligible = Self(rawValue: 4_030_007)
  /// Retention messaging: there are too many images.
  public static let maximumNumberOfImagesReached = Self(rawValue: 4_030_014)
  /// Retention messaging: there are too many messages.
  public static let maximumNumberOfMessagesReached = Self(rawValue: 4_030_016)
  /// Retention messaging: the message is not approved.
  public static let messageNotApproved = Self(rawValue: 4_030_017)
  /// Retention messaging: the image is not approved.
  public static let imageNotApproved = Self(rawValue: 4_030_018)
  /// Retention messaging: the image is in use.
  public static let imageInUse = Self(rawValue: 4_030_019)
  /// Retention messaging: no performance test was passed.
  public static let forbiddenNoPassingTest = Self(rawValue: 4_030_026)
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
  /// Retention messaging: the image is not known.
  public static let imageNotFound = Self(rawValue: 4_040_014)
  /// Retention messaging: the message is not known.
  public static let messageNotFound = Self(rawValue: 4_040_015)
  /// Retention messaging: the performance test is not known.
  public static let performanceTestRunNotFound = Self(rawValue: 4_040_018)
  /// There is no app transaction for the customer.
  public static let appTransactionDoesNotExist = Self(rawValue: 4_040_019)
  /// Retention messaging: there is no default message.
  public static let defaultMessageNotFound = Self(rawValue: 4_040_020)
  /// Retention messaging: there is no URL.
  public static let realtimeUrlNotFound = Self(rawValue: 4_040_021)
}

// MARK: 409: exists

extension AppStoreErrorCode {
  /// Retention messaging: the image exists.
  public static let imageAlreadyExists = Self(rawValue: 4_090_000)
  /// Retention messaging: the message exists.
  public static let messageAlreadyExists = Self(rawValue: 4_090_001)
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
