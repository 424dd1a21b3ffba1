import Foundation

extension CustomerReport: CustomStringConvertible {
  /// Text for a terminal with 80 columns.
  public var description: String {
    guard !customers.isEmpty || !unclaimed.isEmpty else { return found.description }
    var output = TerminalText()
    for customer in customers {
      if !output.isEmpty { output.skip() }
      customer.write(to: &output)
    }
    if !unclaimed.isEmpty {
      if !output.isEmpty { output.skip() }
      output.heading("purchases without an owner")
      for purchase in unclaimed { purchase.write(to: &output) }
    }
    return output.text
  }
}

extension ReportedCustomer {
  fileprivate func write(to output: inout TerminalText) {
    output.member("customer", "\(kind) \(customer)")
    output.member("app", "\(app) (\(bundleID))")
    output.member("access", access)
    output.member("because", because)
    if let freeAccessSince {
      output.member("free access", "for everyone since \(freeAccessSince.rfc3339)")
    }
    if !purchases.isEmpty { output.heading("purchases") }
    for purchase in purchases { purchase.write(to: &output) }
    if !grants.isEmpty { output.heading("grants") }
    for grant in grants { grant.write(to: &output) }
    if let trial {
      output.heading("trial")
      let end = trial.endsAt?.rfc3339 ?? "a time after free access ends"
      output.line("from \(trial.startedAt.rfc3339) until \(end)\(trial.isRunning ? "" : ", ended")")
      if let note = trial.note { output.line("NOT COUNTED: \(note)", indent: 4) }
    }
    if !refusedAttempts.isEmpty { output.heading("refused requests (UTC)") }
    for attempt in refusedAttempts { attempt.write(to: &output) }
    guard !events.isEmpty else { return }
    output.heading("last events (UTC)")
    for event in events {
      output.line("\(event.at.rfc3339)  \(event.event): \(event.what)", hanging: 22)
    }
  }

  private var access: String {
    let tier = entitlements.tier.map { "\($0), " } ?? ""
    let until = entitlements.validUntil.map { ", until \($0.rfc3339)" } ?? ""
    return entitlements.isAccessGranted
      ? "\(tier)\(entitlements.status)\(until)" : "none (\(entitlements.status))"
  }
}

extension ReportedPurchase {
  fileprivate func write(to output: inout TerminalText) {
    output.line("\(originalTransactionID)  \(status) (App Store: \(storeStatus))")
    output.line("\(productID), tier \(tier ?? "none"), \(environment), \(ownership)", indent: 4)
    output.line("bought \(purchaseDate.rfc3339), \(end)", indent: 4)
    if let revokedAt { output.line("refunded or revoked at \(revokedAt.rfc3339)", indent: 4) }
    if let sharedBy {
      output.line("shared by: \(sharedBy)", indent: 4)
    } else if let ownedBecause {
      output.line("owned because: \(ownedBecause)\(takenFrom.map { ", taken from \($0)" } ?? "")", indent: 4)
    }
    if let note { output.line("NOT COUNTED: \(note)", indent: 4) }
  }

  private var end: String {
    guard let expiryDate else { return "no expiry" }
    let grace = gracePeriodExpiryDate.map { ", billing grace until \($0.rfc3339)" } ?? ""
    let renewal = willRenew ? ", will renew" : ", will not renew"
    return "until \(expiryDate.rfc3339)\(grace)\(renewal)"
  }
}

extension ReportedGrant {
  fileprivate func write(to output: inout TerminalText) {
    output.line("\(grant)  \(tier)\(isOpen || note != nil ? "" : ", ended")")
    output.line(
      "from \(startsAt.rfc3339) \(endsAt.map { "until \($0.rfc3339)" } ?? "without end")", indent: 4)
    output.line("by \(grantedBy): \(reason)", indent: 4)
    if let revokedAt { output.line("revoked at \(revokedAt.rfc3339) by \(revokedBy ?? "?")", indent: 4) }
    if let note { output.line("NOT COUNTED: \(note)", indent: 4) }
  }
}
