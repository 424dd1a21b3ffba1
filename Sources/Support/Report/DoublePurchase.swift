import Customers
import Foundation
import HTTP
import JSON
import Subscriptions
import Text

/// A running purchase that opens nothing beyond another running one: the customer pays twice.
package struct DoublePurchase: Sendable {
  /// Why two purchases run.
  package enum Cause: String, Sendable {
    /// Two Apple Accounts of the customer pay.
    case twoAppleAccounts
    /// One Apple Account, or accounts that Apple did not tell, pay for two products.
    case twoProducts
    /// The customer has a purchase that a family member shares, and also pays for one.
    case familySharing
    /// One Apple Account pays for two customers of the app.
    case twoCustomers
  }

  /// One of the two purchases.
  package struct Side: Sendable {
    package var originalTransactionID: String
    package var productID: String
    /// As in ``ReportedPurchase/appleAccount``.
    package var appleAccount: String?
    /// The customer that has it, if that is not the customer of the report.
    package var otherCustomer: String?
  }

  package var cause: Cause
  /// The purchase that opens as much or more.
  package var keep: Side
  /// The purchase that the customer can do without.
  package var spare: Side
  /// Whether the App Store will charge for ``spare`` again.
  package var spareRenews: Bool

  /// What support tells the customer.
  package var advice: String {
    let account = spare.appleAccount.map { "the Apple Account \($0)" } ?? "the Apple Account"
    let renewal = spareRenews ? " and turns off its renewal in the settings of that account" : ""
    let caution: String =
      switch cause {
      case .twoAppleAccounts, .twoProducts: ""
      case .familySharing: " Warn the customer: the share ends when the purchaser stops it."
      case .twoCustomers: " Ask first whether both customers are one person."
      }
    return
      "Only Apple refunds, and only to the account that paid. For a refund of \(spare.originalTransactionID) the "
      + "customer signs in to https://reportaproblem.apple.com with \(account) that bought it\(renewal)."
      + "\(caution) `receiptd refund-answer \(spare.originalTransactionID) --prefer grant` (lead) tells Apple that you agree."
  }

  func write(to output: inout TerminalText) {
    let words =
      switch cause {
      case .twoAppleAccounts: "two Apple Accounts"
      case .twoProducts: "two products"
      case .familySharing: "shared by a family member, and bought"
      case .twoCustomers: "one Apple Account, two customers"
      }
    output.line("\(words): \(keep.text) and \(spare.text)")
    output.line(advice, indent: 4)
  }
}

extension DoublePurchase.Side {
  fileprivate init(_ running: RunningPurchase, at instant: Date) {
    let stored = running.stored
    originalTransactionID = stored.originalTransactionID
    productID = stored.subscription.productID(at: instant)
    appleAccount = stored.subscription.current.shownAppleAccount
    // The devices of one Apple Account share a purchase: its owner is no other customer.
    if !running.isOwn { otherCustomer = stored.owner?.customer.id }
  }

  fileprivate var text: String {
    let account = appleAccount.map { " (Apple Account \($0))" } ?? ""
    return "\(originalTransactionID)\(account)\(otherCustomer.map { " of \($0)" } ?? "")"
  }
}

extension [DoublePurchase] {
  /// Compares the purchase that opens the most with the other running ones.
  ///
  /// - Parameters:
  ///   - own: the customer's purchases in the app.
  ///   - others: other customers' purchases there, which the same Apple Accounts have.
  ///   - plans: of all of them.
  init(
    _ own: [StoredSubscription], _ others: [StoredSubscription], in app: App,
    _ plans: [String: PurchasePlan], at instant: Date
  ) {
    let running = (own.map { (stored: $0, isOwn: true) } + others.map { (stored: $0, isOwn: false) })
      .compactMap { RunningPurchase($0.stored, isOwn: $0.isOwn, in: app, plans, at: instant) }
      .sorted { $0.isBetter(than: $1) }
    self = running.dropFirst().compactMap { spare in
      guard let keep = running.first, keep.isOwn || spare.isOwn, spare.isPaid,
        // A purchase for life stays after a subscription of a higher tier ends.
        !spare.isForLife || keep.isForLife || keep.rank == spare.rank
      else { return nil }
      let (kept, given) = (keep.stored, spare.stored)
      let accounts = [kept, given].compactMap(\.subscription.current.appTransactionID)
      let cause: DoublePurchase.Cause =
        if !keep.isPaid {
          .familySharing
        } else if !keep.isOwn || !spare.isOwn {
          .twoCustomers
        } else if accounts.count == 2, accounts[0] != accounts[1] {
          .twoAppleAccounts
        } else {
          .twoProducts
        }
      return DoublePurchase(
        cause: cause, keep: DoublePurchase.Side(keep, at: instant),
        spare: DoublePurchase.Side(spare, at: instant),
        spareRenews: given.subscription.willRenew(at: instant))
    }
  }
}

/// A purchase that runs and was paid with money.
private struct RunningPurchase {
  var stored: StoredSubscription
  /// Whether the customer of the report has it.
  var isOwn: Bool
  /// The rank of its tier.
  var rank: Int
  var isForLife: Bool
  /// `false` for one that a family member shares.
  var isPaid: Bool
  var boughtAt: Date

  /// - Returns: `nil` for a purchase that has ended, opens nothing, or is of the sandbox.
  init?(
    _ stored: StoredSubscription, isOwn: Bool, in app: App, _ plans: [String: PurchasePlan], at instant: Date
  ) {
    let current = stored.subscription.current
    guard current.environment == .production,
      [.active, .billingGrace].contains(stored.subscription.phase(at: instant).storeStatus),
      let tier = stored.subscription.tier(at: instant).flatMap({ app.tiers[$0] })
    else { return nil }
    self.stored = stored
    self.isOwn = isOwn
    rank = tier.rank
    isForLife = current.expiresDate == nil
    isPaid = current.ownership != "FAMILY_SHARED"
    boughtAt = plans[stored.originalTransactionID]?.firstPurchaseDate ?? current.purchaseDate
  }

  /// Whether the customer should keep this one: it opens more, or costs nothing more, or was bought first.
  func isBetter(than other: RunningPurchase) -> Bool {
    if rank != other.rank { return rank > other.rank }
    if isForLife != other.isForLife { return isForLife }
    if isPaid != other.isPaid { return !isPaid }
    if boughtAt != other.boughtAt { return boughtAt < other.boughtAt }
    return stored.originalTransactionID < other.stored.originalTransactionID
  }
}

extension TransactionFact {
  /// The end of the number of its Apple Account (`appTransactionId`), which tells accounts apart; nil without a number,
  /// and for an erased one.
  var shownAppleAccount: String? {
    guard let appTransactionID, !appTransactionID.hasPrefix("erased:") else { return nil }
    return "…\(appTransactionID.suffix(6))"
  }
}

extension DoublePurchase: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("advice", advice)
      json.member("cause", cause.rawValue)
      json.member("keep", keep)
      json.member("spare", spare)
      json.member("spareRenews", spareRenews)
    }
  }
}

extension DoublePurchase.Side: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("appleAccount", appleAccount)
      json.member("originalTransactionID", originalTransactionID)
      json.member("otherCustomer", otherCustomer)
      json.member("productID", productID)
    }
  }
}
