import AppStore
import Foundation

/// What is true of the simulated store, as JSON for a program that computes the numbers.
struct Truth: Encodable {
  /// The last instant of the story.
  var now: Int64 = 0
  let tiers = [
    ScreenTime.individual: "individual", ScreenTime.family: "family", StoryYear.monthly: "pro",
    StoryYear.annual: "pro", Thaqalayn.tafsir: "premium",
  ]
  private var purchases: [String: Purchase] = [:]
  var trials: [Trial] = []
  var renewalChanges: [RenewalChange] = []
  var ends: [End] = []

  private struct Purchase: Encodable {
    var id, original, account, app, product, country, currency, kind, reason: String
    var price, purchased: Int64
    var expires, revoked: Int64?
    var percentage, revocationReason, offerType: Int32?
    var offer: String?
  }

  struct Trial: Encodable {
    var app, account: String
    var started, ends: Int64
  }

  struct RenewalChange: Encodable {
    var original: String
    var on: Bool
    var at: Int64
  }

  /// Why a subscription was not renewed.
  struct End: Encodable {
    var original, reason: String
    var at: Int64
  }

  /// Notes the latest facts of a transaction.
  mutating func note(_ info: TransactionInfo, _ account: String) {
    purchases[info.transactionId] = Purchase(
      id: info.transactionId, original: info.originalTransactionId, account: account, app: info.bundleId,
      product: info.productId, country: info.storefront ?? "", currency: info.currency ?? "",
      kind: info.type?.rawValue ?? "", reason: info.transactionReason?.rawValue ?? "", price: info.price ?? 0,
      purchased: info.purchaseDate.milliseconds, expires: info.expiresDate?.milliseconds,
      revoked: info.revocationDate?.milliseconds, percentage: info.revocationPercentage,
      revocationReason: info.revocationReason?.rawValue, offerType: info.offerType?.rawValue,
      offer: info.offerIdentifier)
  }

  private enum CodingKeys: CodingKey { case now, tiers, purchases, trials, renewalChanges, ends }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(now, forKey: .now)
    try container.encode(tiers, forKey: .tiers)
    try container.encode(purchases.values.sorted { $0.id < $1.id }, forKey: .purchases)
    try container.encode(trials, forKey: .trials)
    try container.encode(renewalChanges, forKey: .renewalChanges)
    try container.encode(ends, forKey: .ends)
  }
}

extension Date {
  var milliseconds: Int64 { Int64((timeIntervalSince1970 * 1_000).rounded()) }
}
