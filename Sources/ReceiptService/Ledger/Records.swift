import AppStore
import FoundationEssentials
import Postgres
import Subscriptions

/// A signed transaction as the ledger stores it: the claims that the rules need in columns, the others as JSON.
struct TransactionRecord: Sendable {
  var fact: TransactionFact
  /// Whether it is an automatic renewal (Apple's `transactionReason`) and not a purchase.
  var isRenewal: Bool
  /// The claims without a column, as a JSON object; `nil` if there are none.
  var otherClaims: JSONText?
  /// Whether the row keeps its other claims: this signature is older than the row's and adds its token alone.
  var keepsOtherClaims = false

  /// - Throws: ``UnsupportedEnvironment/environment`` for an environment that the rules do not know.
  init(_ signed: Signed<TransactionInfo>) throws(UnsupportedEnvironment) {
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

/// A signed renewal info as the ledger stores it.
struct RenewalRecord: Sendable {
  var fact: RenewalFact
  /// The claims without a column, as a JSON object; `nil` if there are none.
  var otherClaims: JSONText?

  /// - Throws: ``UnsupportedEnvironment/environment`` for an environment that the rules do not know.
  init(_ signed: Signed<RenewalInfo>) throws(UnsupportedEnvironment) {
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
  /// The facts of a signed transaction.
  init(_ info: TransactionInfo) throws(UnsupportedEnvironment) {
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
  /// The facts of a signed renewal info.
  init(_ info: RenewalInfo) throws(UnsupportedEnvironment) {
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

/// A signed payload of an environment other than Production and Sandbox.
enum UnsupportedEnvironment: Error {
  case environment
}

extension String {
  /// The text with U+0000 replaced: JSON allows it, PostgreSQL's `text` does not.
  var storable: String { utf8.contains(0) ? replacing("\0", with: "\u{FFFD}") : self }
}
