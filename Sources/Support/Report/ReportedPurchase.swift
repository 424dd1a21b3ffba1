import Customers
import Deliveries
import Foundation
import HTTP
import JSON
import Subscriptions
import Text

/// A subscription or a non-consumable purchase, in a report.
package struct ReportedPurchase: Sendable {
  package var originalTransactionID: String
  package var transactionID: String
  package var bundleID: String
  package var productID: String
  package var tier: String?
  package var status: String
  package var storeStatus: String
  /// The product of a period that is charged already and begins at `purchaseDate`; nil if the period runs.
  package var upcomingProductID: String?
  /// The start of the current period.
  package var purchaseDate: Date
  package var expiryDate: Date?
  package var gracePeriodExpiryDate: Date?
  /// When Apple stops to charge again after a failed charge; nil if it is not trying. Apple charges before the paid
  /// time ends, so it may be trying while the purchase is active.
  package var chargeRetriesUntil: Date?
  package var revokedAt: Date?
  package var environment: String
  package var ownership: String
  /// The end of the number of the Apple Account (`appTransactionId`) that has it; nil if Apple signed none.
  package var appleAccount: String?
  package var willRenew: Bool
  package var renewsAs: String?
  /// The product that follows the current one, if it is another one and nothing else is paid or cancelled.
  package var next: NextProduct?
  /// Prices and the next period.
  package var plan: PurchasePlan
  /// Whether the App Store can be asked about it: the app has a key.
  package var hasStoreKey: Bool
  /// Why the owner owns it: the column `subscriptions.owned_because`.
  package var ownedBecause: String?
  /// The customer that support took it from.
  package var takenFrom: String?
  /// When the customer that owned it was erased.
  package var erasedAt: Date?
  /// The devices that share it, the one that has had it for the longest time first; empty if one device has it.
  package var devices: [ReportedHolder]
  /// The App Store's questions about refunds of it, the open ones first.
  package var refundRequests: [ReportedRefundRequest]
  /// The answer about a refund that support has set; `nil` if no person has set one.
  package var refundPreference: RefundAnswer.Preference?
  package var opensSomething: Bool
  /// Why it is not counted; `null` if it is.
  package var note: String?
}

extension ReportedPurchase {
  /// - Parameter customer: the customer of the report; `nil` for a purchase without an owner.
  init(
    _ stored: StoredSubscription, in app: App?, of customer: Customer? = nil, with details: PurchaseDetails,
    hasStoreKey: Bool, at instant: Date
  ) {
    let subscription = stored.subscription
    let current = subscription.current
    let phase = subscription.phase(at: instant)
    let owner = stored.owner?.customer
    let counts = app.map { $0.counts(subscription, for: customer ?? owner, at: instant) } ?? false
    var takenFrom: Customer?
    if case .support(let previous) = stored.owner?.reason { takenFrom = previous }
    let id = current.originalTransactionID
    self.init(
      originalTransactionID: id, transactionID: current.transactionID,
      bundleID: current.bundleID, productID: subscription.productID(at: instant),
      tier: subscription.tier(at: instant), status: phase.status.rawValue,
      storeStatus: phase.storeStatus.rawValue,
      upcomingProductID: instant < current.purchaseDate ? subscription.productID : nil,
      purchaseDate: current.purchaseDate,
      expiryDate: current.expiresDate, gracePeriodExpiryDate: subscription.graceExpiresDate,
      chargeRetriesUntil: subscription.chargeRetriesEnd(at: instant),
      revokedAt: current.revocationDate, environment: current.environment.rawValue,
      ownership: current.ownership, appleAccount: current.shownAppleAccount,
      // Nothing is certain to follow a period that ended unpaid, also while Apple tries to charge.
      willRenew: subscription.willRenew(at: instant) && phase.storeStatus != .billingRetry,
      renewsAs: subscription.renewsAs, next: NextProduct(after: subscription, in: app, at: instant),
      plan: details.plans[id] ?? PurchasePlan(), hasStoreKey: hasStoreKey,
      ownedBecause: stored.owner?.reason.word, takenFrom: takenFrom?.id,
      erasedAt: stored.erasure?.ownerErasedAt, devices: details.holders[id] ?? [],
      refundRequests: details.refundRequests[id] ?? [], refundPreference: details.refundPreferences[id],
      opensSomething: counts && phase.status.grantsAccess,
      note: counts ? nil : Self.note(subscription, in: app))
  }

  /// Why a purchase is not counted.
  private static func note(_ subscription: Subscription, in app: App?) -> String {
    guard app != nil else { return "no app '\(subscription.current.bundleID)' is configured" }
    if subscription.tier == nil, subscription.preceding?.tier == nil {
      return "the catalog has no product '\(subscription.productID)'"
    }
    return "it is a sandbox purchase, and the customer is not in sandboxGrants"
  }
}

/// The product that follows the one that runs, in a report.
package struct NextProduct: Sendable {
  package var productID: String
  /// `nil` if the catalog does not know the product.
  package var tier: String?
  /// When it begins.
  package var startsAt: Date
  /// How many children's devices its tier allows; `nil` for any number, and where the catalog does not know it.
  package var childLimit: Int?

  /// - Returns: `nil` if the same product follows, or none.
  init?(after subscription: Subscription, in app: App?, at instant: Date) {
    if instant < subscription.current.purchaseDate {
      // Its period is charged already.
      guard subscription.productID(at: instant) != subscription.productID else { return nil }
      (productID, tier, startsAt) = (
        subscription.productID, subscription.tier, subscription.current.purchaseDate
      )
    } else {
      guard subscription.willRenew(at: instant), let renewsAs = subscription.renewsAs,
        renewsAs != subscription.productID, let end = subscription.current.expiresDate, end > instant
      else { return nil }
      (productID, tier, startsAt) = (renewsAs, app?.product(named: renewsAs)?.tier, end)
    }
    childLimit = tier.flatMap { app?.tiers[$0] }?.features.limit(for: Household.limitFeature)
  }
}

/// A device that has a purchase, in a report.
package struct ReportedHolder: Sendable {
  package var deviceID: String
  /// When it got the purchase.
  package var since: Date
}

extension ReportedPurchase {
  /// - Parameter showsApp: whether to name the app, where no customer above it does.
  func write(to output: inout TerminalText, showsApp: Bool = false) {
    output.line("\(originalTransactionID)  \(status) (App Store: \(storeStatus))")
    if showsApp { output.line("app \(bundleID)", indent: 4) }
    output.line("\(productID), tier \(tier ?? "none"), \(environment), \(ownership)", indent: 4)
    if let appleAccount { output.line("Apple Account \(appleAccount)", indent: 4) }
    output.line(bought, indent: 4)
    if let cost { output.line(cost, indent: 4) }
    output.line(end, indent: 4)
    if let product = plan.pendingProductID, storeStatus != "expired" {
      output.line("changes to \(product) at the next renewal", indent: 4)
    }
    if let increase = plan.priceIncrease {
      let answer = increase == "pending" ? "the customer has not agreed yet" : "accepted"
      output.line("price increase: \(answer)", indent: 4)
    }
    if let paid { output.line(paid, indent: 4) }
    for request in refundRequests { request.write(to: &output) }
    if let refundPreference {
      output.line("about a refund: \(refundPreference.words), \(refundPreference.by) said", indent: 4)
    }
    if let confirmedAt = plan.confirmedAt {
      output.line("last confirmed by Apple \(confirmedAt.rfc3339)", indent: 4)
    }
    if let oldProof { output.line(oldProof, indent: 4) }
    if let ownedBecause {
      output.line("owned because: \(ownedBecause)\(takenFrom.map { ", taken from \($0)" } ?? "")", indent: 4)
    }
    if let erasedAt { output.line("its customer was erased \(erasedAt.rfc3339)", indent: 4) }
    if !devices.isEmpty { output.line("shared by the devices", indent: 4) }
    for device in devices {
      // `adopt` gives a device the oldest time, so that any proof is newer.
      let since =
        device.since > Date(timeIntervalSince1970: 0)
        ? "since \(device.since.rfc3339)" : "from before receiptd"
      output.line("\(device.deviceID), \(since)", indent: 6)
    }
    if let note { output.line("NOT COUNTED: \(note)", indent: 4) }
  }

  /// What is known of a purchase of which an old proof told first: a refund before receiptd may be missing.
  package var oldProof: String? {
    guard let signedAt = plan.oldProofSignedAt else { return nil }
    if let unknownAt = plan.oldProofUnknownAt {
      return "first known by a proof of \(signedAt.rfc3339); "
        + "at \(unknownAt.rfc3339) the App Store did not know it"
    }
    if let askedAt = plan.oldProofAskedAt {
      return "first known by a proof of \(signedAt.rfc3339); the App Store was asked at \(askedAt.rfc3339)"
    }
    let isOnly = plan.confirmedAt.map { $0 <= signedAt } ?? true
    let known = "\(isOnly ? "known only" : "first known") by a proof of \(signedAt.rfc3339); the App Store"
    return hasStoreKey
      ? "\(known) will be asked whether it was refunded since"
      : "\(known) was not asked whether it was refunded since, because the app has no key"
  }

  /// When it was bought.
  package var bought: String {
    if let upcomingProductID {
      return "next period charged ahead: \(upcomingProductID) from \(purchaseDate.rfc3339)"
    }
    guard let first = plan.firstPurchaseDate, first < purchaseDate else {
      return "bought \(purchaseDate.rfc3339)"
    }
    return "bought \(first.rfc3339), current period since \(purchaseDate.rfc3339)"
  }

  /// Price, offer and storefront.
  package var cost: String? {
    let parts = [
      plan.price.map { "price \(upcomingProductID == nil ? "" : "of the next period ")\($0)" }, plan.offer,
      plan.storefront.map { "storefront \($0)" },
    ]
    let words = parts.compactMap(\.self).joined(separator: ", ")
    return words.isEmpty ? nil : words
  }

  private var paid: String? {
    if environment != "Production" { return "paid in total: nothing (\(environment))" }
    // A family member pays nothing.
    if ownership == "FAMILY_SHARED" { return nil }
    let sums = plan.totalPaid.map(\.description).joined(separator: ", ")
    return "paid in total: \(sums.isEmpty ? "nothing" : sums)"
  }

  /// How it goes on or ended.
  package var end: String {
    if let revokedAt { return "refunded or revoked at \(revokedAt.rfc3339)" }
    guard let expiryDate else { return "does not expire" }
    let reason = plan.endReason.map { " (\($0))" } ?? ""
    let price = plan.renewalPrice.map(\.description)
    let until = chargeRetriesUntil.map { " until \(Day(of: $0))" } ?? ""
    let charge = "Apple tries to charge \(price ?? "the next period")\(until)"
    switch storeStatus {
    case "active" where chargeRetriesUntil != nil:
      let access = plan.accessEndsAt.flatMap { $0 > expiryDate ? ", access until \($0.rfc3339)" : nil } ?? ""
      return "paid until \(expiryDate.rfc3339)\(access), charge of the next period failed: \(charge)"
    case "active" where willRenew && ownership == "FAMILY_SHARED":
      return "until \(expiryDate.rfc3339), renews with the purchaser's subscription"
    case "active" where willRenew:
      let offer = plan.renewalOffer.map { ", \($0)" } ?? ""
      return "until \(expiryDate.rfc3339), will renew\(price.map { " for \($0)" } ?? "")\(offer)"
    case "active": return "until \(expiryDate.rfc3339), will not renew\(reason)"
    case "billingGrace":
      let grace = gracePeriodExpiryDate.map { ", billing grace until \($0.rfc3339)" } ?? ""
      return "until \(expiryDate.rfc3339)\(grace): \(charge)"
    case "billingRetry": return "\(ended(expiryDate)), unpaid: \(charge)"
    default: return "\(ended(expiryDate))\(reason)"
    }
  }

  /// The end of the paid time, and that of access where a grace period follows.
  private func ended(_ expiryDate: Date) -> String {
    guard let access = plan.accessEndsAt, access > expiryDate else { return "ended \(expiryDate.rfc3339)" }
    let word = status == "grace" ? "until" : "ended"
    return "paid until \(expiryDate.rfc3339), access \(word) \(access.rfc3339)"
  }
}

extension ReportedPurchase: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("accessEndsAt", plan.accessEndsAt)
      json.member("appleAccount", appleAccount)
      json.member("bundleID", bundleID)
      json.member("chargeRetriesUntil", chargeRetriesUntil)
      json.member("confirmedAt", plan.confirmedAt)
      json.member("devices", devices)
      json.member("endReason", plan.endReason)
      json.member("environment", environment)
      json.member("erasedAt", erasedAt)
      json.member("expiryDate", expiryDate)
      json.member("firstPurchaseDate", plan.firstPurchaseDate)
      json.member("gracePeriodExpiryDate", gracePeriodExpiryDate)
      json.member("note", note)
      json.member("offer", plan.offer)
      json.member("oldProof", oldProof)
      json.member("opensSomething", opensSomething)
      json.member("originalTransactionID", originalTransactionID)
      json.member("ownedBecause", ownedBecause)
      json.member("ownership", ownership)
      json.member("pendingProductID", plan.pendingProductID)
      json.member("price", plan.price)
      json.member("priceIncrease", plan.priceIncrease)
      json.member("productID", productID)
      json.member("purchaseDate", purchaseDate)
      json.member("refundPreference", refundPreference?.choice.rawValue)
      json.member("refundPreferenceBy", refundPreference?.by)
      json.member("refundRequests", refundRequests)
      json.member("renewalOffer", plan.renewalOffer)
      json.member("renewalPrice", plan.renewalPrice)
      json.member("renewsAs", renewsAs)
      json.member("revokedAt", revokedAt)
      json.member("status", status)
      json.member("storeStatus", storeStatus)
      json.member("storefront", plan.storefront)
      json.member("takenFrom", takenFrom)
      json.member("tier", tier)
      json.member("totalPaid", plan.totalPaid)
      json.member("transactionID", transactionID)
      json.member("upcomingProductID", upcomingProductID)
      json.member("willRenew", willRenew)
    }
  }
}

extension ReportedHolder: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("deviceID", deviceID)
      json.member("since", since)
    }
  }
}
