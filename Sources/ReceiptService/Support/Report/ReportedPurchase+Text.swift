import Foundation

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
  var oldProof: String? {
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

  private var bought: String {
    if let upcomingProductID {
      return "next period charged ahead: \(upcomingProductID) from \(purchaseDate.rfc3339)"
    }
    guard let first = plan.firstPurchaseDate, first < purchaseDate else {
      return "bought \(purchaseDate.rfc3339)"
    }
    return "bought \(first.rfc3339), current period since \(purchaseDate.rfc3339)"
  }

  private var cost: String? {
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

  private var end: String {
    if let revokedAt { return "refunded or revoked at \(revokedAt.rfc3339)" }
    guard let expiryDate else { return "does not expire" }
    let reason = plan.endReason.map { " (\($0))" } ?? ""
    let price = plan.renewalPrice.map(\.description)
    let until = chargeRetriesUntil.map { " until \(Day(of: $0))" } ?? ""
    let charge = "Apple tries to charge \(price ?? "the next period")\(until)"
    switch storeStatus {
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
