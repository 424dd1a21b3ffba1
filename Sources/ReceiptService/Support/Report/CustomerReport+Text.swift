import FoundationEssentials

extension CustomerReport: CustomStringConvertible {
  /// For a terminal of 80 columns.
  public var description: String {
    guard !isEmpty else { return "Nothing is known of \(asked): whoever it is, is free." }
    var page = Page()
    for story in customers {
      if !page.isEmpty { page.skip() }
      story.write(to: &page)
    }
    if !unclaimed.isEmpty {
      if !page.isEmpty { page.skip() }
      page.heading("purchases that belong to nobody yet")
      for purchase in unclaimed { purchase.write(to: &page) }
    }
    return page.text
  }
}

extension CustomerStory {
  fileprivate func write(to page: inout Page) {
    page.member("customer", "\(kind) \(customer)")
    page.member("app", "\(app) (\(bundleID))")
    page.member("access", access)
    page.member("because", because)
    if let freeAccessSince {
      page.member("free access", "for everyone since \(freeAccessSince.inWords)")
    }
    if !purchases.isEmpty { page.heading("purchases") }
    for purchase in purchases { purchase.write(to: &page) }
    if !grants.isEmpty { page.heading("grants") }
    for grant in grants { grant.write(to: &page) }
    if let trial {
      page.heading("trial")
      let end = trial.endsAt?.inWords ?? "some time after free access"
      page.line("from \(trial.startedAt.inWords) until \(end)\(trial.isRunning ? "" : ", over")")
      if let note = trial.note { page.line("NOT COUNTED: \(note)", indent: 4) }
    }
    guard !events.isEmpty else { return }
    page.heading("last events (UTC)")
    for event in events {
      page.line("\(event.at.inWords)  \(event.event): \(event.what)", hanging: 22)
    }
  }

  private var access: String {
    let tier = entitlements.tier.map { "\($0), " } ?? ""
    let until = entitlements.validUntil.map { ", until \($0.inWords)" } ?? ""
    return entitlements.isAccessGranted
      ? "\(tier)\(entitlements.status)\(until)" : "none (\(entitlements.status))"
  }
}

extension PurchaseStory {
  fileprivate func write(to page: inout Page) {
    page.line("\(originalTransactionID)  \(status) (the store: \(storeStatus))")
    page.line("\(productID), tier \(tier ?? "none"), \(environment), \(ownership)", indent: 4)
    page.line("bought \(purchaseDate.inWords), \(end)", indent: 4)
    if let revokedAt { page.line("refunded or revoked at \(revokedAt.inWords)", indent: 4) }
    if let sharedBy {
      page.line("shared: \(sharedBy) had it first", indent: 4)
    } else if let ownedBecause {
      page.line("theirs because: \(ownedBecause)\(takenFrom.map { ", taken from \($0)" } ?? "")", indent: 4)
    }
    if let note { page.line("NOT COUNTED: \(note)", indent: 4) }
  }

  private var end: String {
    guard let expiryDate else { return "for good" }
    let grace = gracePeriodExpiryDate.map { ", billing grace until \($0.inWords)" } ?? ""
    let renewal = willRenew ? ", will renew" : ", will not renew"
    return "until \(expiryDate.inWords)\(grace)\(renewal)"
  }
}

extension GrantStory {
  fileprivate func write(to page: inout Page) {
    page.line("\(grant)  \(tier)\(isOpen || note != nil ? "" : ", over")")
    page.line("from \(startsAt.inWords) \(endsAt.map { "until \($0.inWords)" } ?? "for good")", indent: 4)
    page.line("by \(grantedBy): \(reason)", indent: 4)
    if let revokedAt { page.line("revoked at \(revokedAt.inWords) by \(revokedBy ?? "?")", indent: 4) }
    if let note { page.line("NOT COUNTED: \(note)", indent: 4) }
  }
}
