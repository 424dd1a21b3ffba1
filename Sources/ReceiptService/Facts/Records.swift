import AppStore
import FoundationEssentials
import Postgres
import Subscriptions

/// A signed transaction as the ledger keeps it: what the rules need in columns, the rest beside it.
struct TransactionRecord: Sendable {
  @Boxed var fact: TransactionFact
  /// Whether the App Store charged by itself (Apple's `transactionReason`), rather than somebody bought.
  var isRenewal: Bool
  /// What Apple signed beyond the columns, as a JSON object; `nil` if nothing.
  var otherClaims: JSONText?
  /// Whether the row's claims beyond the columns stay: this signature is older than the row's, and tells its token.
  var keepsOtherClaims = false

  /// - Throws: ``Unkept/environment`` for an environment that the rules do not know.
  init(_ signed: Signed<TransactionInfo>) throws(Unkept) {
    fact = try TransactionFact(signed.payload)
    isRenewal = signed.payload.transactionReason == .renewal
    otherClaims = Self.claimsWithColumns.remainder(of: signed.payloadBytes)
  }

  private static let claimsWithColumns: ColumnNames = [
    "transactionId", "originalTransactionId", "bundleId", "environment", "productId", "type",
    "inAppOwnershipType", "purchaseDate", "originalPurchaseDate", "expiresDate", "revocationDate",
    "isUpgraded", "appAccountToken", "appTransactionId", "price", "currency", "signedDate",
  ]
}

/// A signed renewal info as the ledger keeps it.
struct RenewalRecord: Sendable {
  @Boxed var fact: RenewalFact
  /// What Apple signed beyond the columns, as a JSON object; `nil` if nothing.
  var otherClaims: JSONText?

  /// - Throws: ``Unkept/environment`` for an environment that the rules do not know.
  init(_ signed: Signed<RenewalInfo>) throws(Unkept) {
    fact = try RenewalFact(signed.payload)
    otherClaims = Self.claimsWithColumns.remainder(of: signed.payloadBytes)
  }

  private static let claimsWithColumns: ColumnNames = [
    "originalTransactionId", "environment", "productId", "autoRenewProductId", "autoRenewStatus",
    "isInBillingRetryPeriod", "gracePeriodExpiresDate", "expirationIntent", "renewalDate",
    "signedDate",
  ]
}

extension TransactionFact {
  /// What a signed transaction says to the rules.
  init(_ info: TransactionInfo) throws(Unkept) {
    guard let environment = StoreEnvironment(rawValue: info.environment.rawValue) else {
      throw .environment
    }
    self.init(
      transactionID: info.transactionId.storable,
      originalTransactionID: info.originalTransactionId.storable, bundleID: info.bundleId.storable,
      environment: environment, productID: info.productId.storable,
      kind: PurchaseKind(rawValue: info.type?.rawValue.storable ?? ""),
      ownership: info.inAppOwnershipType?.rawValue.storable ?? "PURCHASED",
      purchaseDate: info.purchaseDate,
      originalPurchaseDate: info.originalPurchaseDate, expiresDate: info.expiresDate,
      revocationDate: info.revocationDate, isUpgraded: info.isUpgraded ?? false,
      appAccountToken: info.customerToken, appTransactionID: info.appTransactionId?.storable,
      priceMilliunits: info.price, currency: info.currency?.storable, signedAt: info.signedDate)
  }
}

extension RenewalFact {
  /// What a signed renewal info says to the rules.
  init(_ info: RenewalInfo) throws(Unkept) {
    guard let environment = StoreEnvironment(rawValue: info.environment.rawValue) else {
      throw .environment
    }
    self.init(
      originalTransactionID: info.originalTransactionId.storable, environment: environment,
      productID: info.productId?.storable ?? "", renewsAs: info.autoRenewProductId?.storable,
      willAutoRenew: info.autoRenewStatus.map { $0 == .on },
      isInBillingRetry: info.isInBillingRetryPeriod ?? false,
      graceExpiresDate: info.gracePeriodExpiresDate,
      expirationIntent: info.expirationIntent.map { Int($0.rawValue) },
      renewalDate: info.renewalDate, signedAt: info.signedDate)
  }
}

/// Why a signed payload is no fact for the rules.
enum Unkept: Error {
  case environment
}

extension String {
  /// PostgreSQL's text has no U+0000, which is legal in JSON. It must not cost us a whole notification.
  var storable: String { utf8.contains(0) ? replacing("\0", with: "\u{FFFD}") : self }
}
