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
      for purchase in unclaimed { purchase.write(to: &output, showsApp: true) }
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
    if let seen {
      let (first, last) = (Day(of: seen.firstAt), Day(of: seen.lastAt))
      output.member("signed in", "with a valid token, first on \(first), last on \(last)")
    }
    if let freeAccessSince {
      output.member("free access", "for everyone since \(freeAccessSince.rfc3339)")
    }
    if !purchases.isEmpty { output.heading("purchases") }
    for purchase in purchases { purchase.write(to: &output) }
    if !doublePurchases.isEmpty { output.heading("bought twice") }
    for double in doublePurchases { double.write(to: &output) }
    if !grants.isEmpty { output.heading("grants") }
    for grant in grants { grant.write(to: &output) }
    if let trial {
      output.heading("trial")
      let end = trial.endsAt?.rfc3339 ?? "a time after free access ends"
      output.line("from \(trial.startedAt.rfc3339) until \(end)\(trial.isRunning ? "" : ", ended")")
      if let note = trial.note { output.line("NOT COUNTED: \(note)", indent: 4) }
    }
    if !children.isEmpty { output.heading("children") }
    for child in children {
      let name = child.name.map { " (\($0))" } ?? ""
      output.line("\(child.childDeviceID)\(name), \(child.status), paired \(child.pairedAt.rfc3339)")
      if let reason = child.pausedBecause { output.line("paused because \(reason)", indent: 4) }
    }
    if !refusedAttempts.isEmpty { output.heading("refused requests (UTC)") }
    for attempt in refusedAttempts { attempt.write(to: &output) }
    guard !events.isEmpty else { return }
    let hidden = eventsHidden == 1 ? "1 earlier one is hidden" : "\(eventsHidden) earlier ones are hidden"
    output.heading("last events (UTC)\(eventsHidden == 0 ? "" : "; \(hidden)")")
    for event in events {
      let source = ["purchase", "renewal", "revoked"].contains(event.event) ? " (\(event.source))" : ""
      output.line("\(event.at.rfc3339)  \(event.event): \(event.what)\(source)", hanging: 22)
    }
  }

  private var access: String {
    let tier = entitlements.tier.map { "\($0), " } ?? ""
    guard entitlements.isAccessGranted else {
      return purchases.isEmpty && grants.isEmpty && trial == nil ? "none" : "none (\(entitlements.status))"
    }
    let until = accessUntil.map { ", until \($0.rfc3339)" } ?? ""
    // The app's own grace follows, or another source with another status.
    let change = entitlements.validUntil.flatMap { $0 == accessUntil ? nil : $0.rfc3339 }
    return
      "\(tier)\(entitlements.status)\(until)\(change.map { " (\(entitlements.status) until \($0))" } ?? "")"
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
