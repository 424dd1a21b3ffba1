import AppStore
import FoundationEssentials
import Postgres
import Subscriptions

/// A signed transaction as the ledger stores it: the claims that the rules need in columns, the others as JSON.
struct TransactionRecord: Sendable {
  var fact: TransactionFact
  /// Whether it is an automatic renewal (Apple's `transactionReason`) and not a purchase.
  var isRenewal: Bool
  /// The reason and extent of a refund.
  var revocation: Revocation
  /// The claims without a column, as a JSON object; `nil` if there are none.
  var otherClaims: JSONText?
  /// Whether the row keeps its other claims: this signature is older than the row's and adds its token alone.
  var keepsOtherClaims = false

  /// - Throws: ``UnsupportedEnvironment/environment`` for an environment that the rules do not know.
  init(_ signed: Signed<TransactionInfo>) throws(UnsupportedEnvironment) {
    fact = try TransactionFact(signed.payload)
    isRenewal = signed.payload.transactionReason == .renewal
    revocation = Revocation(signed.payload)
    otherClaims = Self.claimsWithColumns.remainder(of: signed.payloadBytes)
  }

  private static let claimsWithColumns: ColumnNames = [
    "transactionId", "originalTransactionId", "bundleId", "environment", "productId", "type",
    "inAppOwnershipType", "purchaseDate", "originalPurchaseDate", "expiresDate", "revocationDate",
    "isUpgraded", "appAccountToken", "appTransactionId", "price", "currency", "signedDate",
  ]
}

/// The reason and extent of a refund or revocation.
struct Revocation: Sendable {
  /// Apple's `revocationReason`: 1 for an issue in the app, 0 for another reason.
  var reason: Int?
  /// Apple's `revocationType`.
  var type: String?
  /// Apple's `revocationPercentage`: the refunded share in thousandths of a percent.
  var percentage: Int?

  init(_ info: TransactionInfo) {
    reason = info.revocationReason.map { Int($0.rawValue) }
    type = info.revocationType?.rawValue.storable
    percentage = info.revocationPercentage.map(Int.init)
  }
}

/// A signed renewal info as the ledger stores it.
struct RenewalRecord: Sendable {
  var fact: RenewalFact
  /// The price of the next period, Apple's `renewalPrice` in thousandths of the currency's unit.
  var price: Int64?
  /// The currency of ``price`` (ISO 4217).
  var currency: String?
  /// The claims without a column, as a JSON object; `nil` if there are none.
  var otherClaims: JSONText?

  /// - Throws: ``UnsupportedEnvironment/environment`` for an environment that the rules do not know.
  init(_ signed: Signed<RenewalInfo>) throws(UnsupportedEnvironment) {
    fact = try RenewalFact(signed.payload)
    price = signed.payload.renewalPrice
    currency = signed.payload.currency?.storable
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
      priceMilliunits: info.price, currency: info.currency?.storable,
      isFreeOffer: info.offerDiscountType == .freeTrial, signedAt: info.signedDate)
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
