/// Payloads in Apple's JSON form, with every documented field.
enum Texts {
  static let transaction = """
    {"transactionId":"23456","originalTransactionId":"12345","webOrderLineItemId":"34343",\
    "bundleId":"com.example","productId":"com.example.product","subscriptionGroupIdentifier":"55555",\
    "purchaseDate":1698148900001,"originalPurchaseDate":1698148800002,"expiresDate":1698149999999,\
    "quantity":1,"type":"Auto-Renewable Subscription",\
    "appAccountToken":"7E3FB20B-4CDB-47CC-936D-99D65F608138","inAppOwnershipType":"PURCHASED",\
    "signedDate":1698148800000,"revocationReason":1,"revocationDate":1698148950000,"isUpgraded":true,\
    "offerType":4,"offerIdentifier":"abc.123","environment":"Sandbox","storefront":"USA",\
    "storefrontId":"143441","transactionReason":"RENEWAL","currency":"USD","price":10990,\
    "offerDiscountType":"PAY_AS_YOU_GO","appTransactionId":"71134","offerPeriod":"P1Y",\
    "revocationType":"REFUND_PRORATED","revocationPercentage":67932,\
    "previousOriginalTransactionId":"11111","billingPlanType":"MONTHLY",\
    "commitmentInfo":{"billingPeriodNumber":3,"commitmentExpiresDate":1729771300000,\
    "commitmentPrice":119880,"totalBillingPeriods":12}}
    """

  static let renewalInfo = """
    {"expirationIntent":2,"originalTransactionId":"12345","autoRenewProductId":"com.example.product.2",\
    "productId":"com.example.product","autoRenewStatus":1,"isInBillingRetryPeriod":true,\
    "priceIncreaseStatus":0,"gracePeriodExpiresDate":1698149000000,"offerType":2,\
    "offerIdentifier":"abc.123","signedDate":1698148800000,"environment":"Sandbox",\
    "recentSubscriptionStartDate":1698148800001,"renewalDate":1698148850000,"currency":"USD",\
    "renewalPrice":9990,"offerDiscountType":"PAY_AS_YOU_GO",\
    "eligibleWinBackOfferIds":["eligible1","eligible2"],\
    "appAccountToken":"7E3FB20B-4CDB-47CC-936D-99D65F608138","appTransactionId":"71134",\
    "offerPeriod":"P1Y","renewalBillingPlanType":"BILLED_UPFRONT",\
    "commitmentInfo":{"commitmentAutoRenewProductId":"com.example.product",\
    "commitmentAutoRenewStatus":1,"commitmentRenewalBillingPlanType":"MONTHLY",\
    "commitmentRenewalDate":1729771300000,"commitmentRenewalPrice":119880}}
    """

  static let appTransaction = """
    {"receiptType":"Sandbox","appAppleId":531412,"bundleId":"com.example","applicationVersion":"1.2.3",\
    "versionExternalIdentifier":512,"receiptCreationDate":1698148900000,\
    "originalPurchaseDate":1698148800000,"originalApplicationVersion":"1.1.2",\
    "deviceVerification":"device_verification_value",\
    "deviceVerificationNonce":"48CCFA42-7431-4F22-9908-7E88983E105A","preorderDate":1698148700000,\
    "appTransactionId":"71134","originalPlatform":"visionOS"}
    """

  static let notifications = [
    """
    {"notificationType":"CONSUMPTION_REQUEST","subtype":"INITIAL_BUY",\
    "notificationUUID":"002e14d5-51f5-4503-b5a8-c3a1af68eb20","version":"2.0",\
    "signedDate":1698148900000,"data":{"environment":"Sandbox","appAppleId":41234,\
    "bundleId":"com.example","bundleVersion":"1.2.3","signedTransactionInfo":"a","signedRenewalInfo":"b",\
    "status":4,"consumptionRequestReason":"UNINTENDED_PURCHASE"}}
    """,
    """
    {"notificationType":"RENEWAL_EXTENSION","subtype":"SUMMARY","notificationUUID":"u","version":"2.0",\
    "signedDate":1698148900000,"summary":{"environment":"Sandbox","appAppleId":41234,\
    "bundleId":"com.example","productId":"com.example.product","requestIdentifier":"efb27071",\
    "storefrontCountryCodes":["CAN","USA"],"succeededCount":5,"failedCount":2}}
    """,
    """
    {"notificationType":"EXTERNAL_PURCHASE_TOKEN","subtype":"UNREPORTED","notificationUUID":"u",\
    "version":"2.0","signedDate":1698148900000,"externalPurchaseToken":{\
    "externalPurchaseId":"SANDBOX_b2158121-7af9-49d4-9561-1f588205523e",\
    "tokenCreationDate":1698148950000,"tokenExpirationDate":1698149950000,"tokenType":"SERVICES",\
    "appAppleId":41234,"bundleId":"com.example"}}
    """,
    """
    {"notificationType":"RESCIND_CONSENT","notificationUUID":"u","version":"2.0",\
    "signedDate":1698148900000,"appData":{"environment":"Sandbox","appAppleId":41234,\
    "bundleId":"com.example","signedAppTransactionInfo":"a"}}
    """,
  ]

  /// A member of Advanced Commerce, which the payload types do not have.
  static let advancedCommerce = """
    "advancedCommerceInfo":{"descriptors":{"description":"d","displayName":"n"},"estimatedTax":1,\
    "items":[{"sku":"sku","offer":{"period":"P1M","periodCount":2,"price":990,"reason":"WIN_BACK"},\
    "price":4990,"refunds":[{"refundAmount":1,"refundDate":1698148960000,"refundReason":"LEGAL",\
    "refundType":"PRORATED"}],"revocationDate":1698148970000}],"period":"P1M","taxRate":"0.19"}
    """
}
