/// Bytes as they come.
enum Payloads {
  static let transaction = Array(
    #"""
    {"transactionId":"2000000000000001","originalTransactionId":"1000000000000001",\#
    "webOrderLineItemId":"3000000000000001","bundleId":"com.swiftclimb.app",\#
    "productId":"com.swiftclimb.premium.annual","subscriptionGroupIdentifier":"21000001",\#
    "purchaseDate":1763500000000,"originalPurchaseDate":1763500000000,"expiresDate":1795036000000,"quantity":1,\#
    "type":"Auto-Renewable Subscription","appAccountToken":"7e3fb20b-4cdb-47cc-936d-99d65f608138",\#
    "inAppOwnershipType":"PURCHASED","signedDate":1763500001234,"environment":"Production",\#
    "transactionReason":"PURCHASE","storefront":"USA","storefrontId":"143441","price":49990,"currency":"USD",\#
    "appTransactionId":"704000000000000001"}
    """#.utf8)

  static let renewalInfo = Array(
    #"""
    {"originalTransactionId":"1000000000000001","autoRenewProductId":"com.swiftclimb.premium.annual",\#
    "productId":"com.swiftclimb.premium.annual","autoRenewStatus":1,"renewalPrice":49990,"currency":"USD",\#
    "signedDate":1763500001234,"environment":"Production","recentSubscriptionStartDate":1763500000000,\#
    "renewalDate":1795036000000,"appTransactionId":"704000000000000001",\#
    "appAccountToken":"7e3fb20b-4cdb-47cc-936d-99d65f608138"}
    """#.utf8)

  /// With two JWS of the length that the App Store's have.
  static let notification = Array(
    #"""
    {"notificationType":"DID_RENEW","notificationUUID":"002e14d5-51f5-4503-b5a8-c3a1af68eb20","version":"2.0",\#
    "signedDate":1763500001234,"data":{"appAppleId":1500000001,"bundleId":"com.swiftclimb.app",\#
    "bundleVersion":"42","environment":"Production","signedTransactionInfo":"\#(jws(4_700))",\#
    "signedRenewalInfo":"\#(jws(4_300))","status":1}}
    """#.utf8)

  static let body = Array(#"{"signedPayload":"\#(jws(13_600))"}"#.utf8)

  private static func jws(_ length: Int) -> String {
    String(repeating: "eyJhbGciOiJFUzI1", count: length / 16)
  }
}
