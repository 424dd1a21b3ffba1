import Authentication
import Customers
import Foundation
import HTTP
import JSON
import Subscriptions
import Text

/// A report for support on the customers and purchases with an id: entitlements, their reasons, and recent events.
package struct CustomerReport: Sendable {
  /// The id that was searched for.
  package let asked: String
  /// The result of the search.
  package let found: FindResult
  /// One element for each customer and app.
  package let customers: [ReportedCustomer]
  /// The pairings of the device with that id as a child, those of ``CustomerSearch/parents``.
  package let pairings: [ReportedPairing]
  /// Purchases with that id that have no owner.
  package let unclaimed: [ReportedPurchase]
  /// The server's clock.
  package let serverTime: Date

  /// Whether nothing has the id.
  package var isEmpty: Bool {
    customers.isEmpty && unclaimed.isEmpty && (found.search.refusals.isEmpty || !found.isFound)
  }
}

/// A customer of one app, in a report.
package struct ReportedCustomer: Sendable {
  /// `user` or `device`.
  package var kind: String
  package var customer: String
  package var bundleID: String
  package var app: String
  /// The entitlements that the customer's client gets now.
  package var entitlements: EntitlementsResponse
  /// When access ends if nothing new arrives, as in `support_customers.access_until`; `null` for no access or no end.
  package var accessUntil: Date?
  /// The reason for the entitlements, in a sentence.
  package var because: String
  /// When the paid time or the trial ends, when access ends, and what follows, each in a sentence; empty without
  /// access.
  package var sentences: [String] = []
  /// The purchase that decides them, by `originalTransactionID`; `nil` if no purchase of the customer does.
  package var decidingPurchase: String?
  /// When a valid access token of the user came; `nil` for a device, or if none came in 395 days.
  package var seen: SeenTimes?
  package var purchases: [ReportedPurchase]
  /// Purchases that run beside another one that opens as much.
  package var doublePurchases: [DoublePurchase]
  package var grants: [ReportedGrant]
  package var trial: ReportedTrial?
  /// Since when free access is on; `null` if it is off.
  package var freeAccessSince: Date?
  /// The first children's devices, in the order of pairing.
  package var children: [ReportedChild]
  /// How many more there are.
  package var childrenHidden: Int
  /// The deliveries about the customer, those that have not arrived first.
  package var deliveries: [ReportedDelivery]
  /// The last refused requests that named the customer, oldest first.
  package var refusedAttempts: [RefusedAttempt]
  /// The last events but refused requests, oldest first.
  package var events: [TimelineEvent]
  /// How many earlier events there are.
  package var eventsHidden: Int
}

/// A grant, in a report.
package struct ReportedGrant: Sendable {
  package var grant: String
  package var tier: String
  package var startsAt: Date
  package var endsAt: Date?
  package var grantedBy: String
  package var reason: String
  package var revokedAt: Date?
  package var revokedBy: String?
  package var isOpen: Bool
  /// Why an open grant is not counted; `null` if it is counted or has ended.
  package var note: String?
}

extension ReportedGrant {
  init(_ stored: StoredGrant, in app: App, at instant: Date) {
    let isOpen = stored.revokedAt == nil && stored.grant.isOpen(at: instant)
    let counts = app.counts(stored.grant, for: stored.customer, at: instant)
    let note =
      app.tiers[stored.grant.tier] == nil
      ? "the configuration has no tier '\(stored.grant.tier)'"
      : "it is of the sandbox, and the customer is not in sandboxGrants"
    self.init(
      grant: stored.grant.id.uuidString.lowercased(), tier: stored.grant.tier,
      startsAt: stored.grant.startsAt, endsAt: stored.grant.endsAt, grantedBy: stored.grantedBy,
      reason: stored.reason, revokedAt: stored.revokedAt, revokedBy: stored.revokedBy,
      isOpen: isOpen && counts, note: isOpen && !counts ? note : nil)
  }
}

/// The app's own trial, in a report.
package struct ReportedTrial: Sendable {
  package var startedAt: Date
  /// `null` while free access is on: the trial is suspended.
  package var endsAt: Date?
  package var isRunning: Bool
  /// Why it is not counted; `null` if it is.
  package var note: String?
}

extension ReportedTrial {
  init(
    _ trial: Trial, of customer: Customer, in app: App, honoring freeAccess: FreeAccess, at instant: Date
  ) {
    let end = trial.end(honoring: freeAccess)
    let counts = app.counts(trial.environment, for: customer, at: instant)
    self.init(
      startedAt: trial.startedAt, endsAt: end, isRunning: counts && end.map { instant < $0 } ?? true,
      note: counts ? nil : "it is of the sandbox, and the customer is not in sandboxGrants")
  }
}

/// A child's device that is paired with a customer's device, in a report.
package struct ReportedChild: Sendable {
  package var childDeviceID: String
  package var name: String?
  package var pairedAt: Date
  /// `active`, or `paused` beyond the limit.
  package var status: String
  /// Why it is paused; `null` if it is active.
  package var pausedBecause: String?
}

/// A parent of a child's device, in a report on the child.
package struct ReportedPairing: Sendable {
  package var childDeviceID: String
  /// The name that the parent gave to the child.
  package var name: String?
  package var parent: CustomerSearch.Match
  /// `nil` if the parent has paired more devices than are counted.
  package var state: ChildState?

  /// Why the child is active or paused, in words.
  package var because: String {
    switch state {
    case .active: "it has what its parent has"
    case .beyondLimit: "more devices are paired than the parent's tier allows, and this one came later"
    case .parentWithoutAccess: "its parent has no access"
    case nil: "the parent's plan does not count it"
    }
  }
}

extension ReportedPairing: JSONWritable {
  /// Writes one object, whose members `state` and `reason` have the words of the member `pairing` of client responses.
  package func write(to json: inout JSONWriter) {
    let reason: String? =
      switch state {
      case .beyondLimit: "device_limit"
      case .parentWithoutAccess: "parent_without_access"
      case .active, nil: nil
      }
    json.object { json in
      json.member("because", because)
      json.member("bundleID", parent.bundleID)
      json.member("childDeviceID", childDeviceID)
      json.member("name", name)
      json.member("parent", parent.customer.id)
      json.member("reason", reason)
      json.member("state", state == .active ? "active" : "paused")
    }
  }
}

extension [ReportedChild] {
  /// - Parameters:
  ///   - paired: in the order of pairing.
  ///   - entitlements: those of the customer; they limit how many of the devices are active.
  init(_ paired: some Sequence<PairedDevice>, under entitlements: Entitlements) {
    let limit = entitlements.features.limit(for: Household.limitFeature)
    let access = [entitlements.tier, entitlements.status.rawValue].compactMap(\.self).joined(separator: ", ")
    self = paired.map { device in
      let index = device.place
      var child = ReportedChild(
        childDeviceID: device.childDeviceID, name: device.name, pairedAt: device.pairedAt,
        status: device.status(limit: limit))
      if let limit, index >= limit {
        let earlier = index == 0 ? "" : ", and \(index) \(index == 1 ? "was" : "were") paired before it"
        child.pausedBecause =
          entitlements.isAccessGranted
          ? "\(Household.limitFeature) is \(limit) (\(access))\(earlier)"
          : "the parent has no access (\(access))"
      }
      return child
    }
  }
}

extension CustomerReport: CustomStringConvertible {
  /// Text for a terminal with 80 columns.
  package var description: String {
    guard !customers.isEmpty || !unclaimed.isEmpty else { return found.description }
    var output = TerminalText()
    for customer in customers {
      if !output.isEmpty { output.skip() }
      customer.write(to: &output)
    }
    if !customers.isEmpty { found.search.writeParents(to: &output) }
    for pairing in pairings {
      let state = pairing.state == .active ? "active" : "paused"
      output.member(
        "as a child",
        "\(pairing.childDeviceID) is \(state) under \(pairing.parent.customer.id): \(pairing.because)")
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
    for sentence in sentences { output.member("", sentence) }
    if hasPrioritySupport { output.member("support", "priority, as the tier promises") }
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
    if childrenHidden > 0 { output.line("and \(childrenHidden) more") }
    if !deliveries.isEmpty { output.heading("deliveries") }
    for delivery in deliveries { delivery.write(to: &output) }
    if !refusedAttempts.isEmpty { output.heading("refused requests (UTC)") }
    for attempt in refusedAttempts { attempt.write(to: &output) }
    guard !events.isEmpty else { return }
    let hidden = eventsHidden == 1 ? "1 earlier one is hidden" : "\(eventsHidden) earlier ones are hidden"
    output.heading("last events (UTC)\(eventsHidden == 0 ? "" : "; \(hidden)")")
    for event in events {
      let source =
        ["purchase", "renewal", "restore", "revoked"].contains(event.event) ? " (\(event.source))" : ""
      output.line("\(event.at.rfc3339)  \(event.event): \(event.what)\(source)", hanging: 22)
    }
  }

  /// Whether the feature `prioritySupport` is on.
  package var hasPrioritySupport: Bool {
    switch entitlements.features["prioritySupport"] {
    case .flag(let isOn): isOn
    case .word(let word): word == "allowed"
    case .count, .amount, .unlimited, nil: false
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

extension CustomerReport: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("asked", asked)
      json.member("customers", customers)
      json.member("pairings", pairings)
      json.member("parents", found.search.parents)
      json.member("parentsHidden", found.search.parentsHidden)
      json.member("serverTime", serverTime)
      json.member("unclaimed", unclaimed)
    }
  }
}

extension ReportedCustomer: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("accessUntil", accessUntil)
      json.member("app", app)
      json.member("because", because)
      json.member("bundleID", bundleID)
      json.member("children", children)
      json.member("childrenHidden", childrenHidden)
      json.member("customer", customer)
      json.member("deliveries", deliveries)
      json.member("doublePurchases", doublePurchases)
      json.member("entitlements", entitlements)
      json.member("events", events)
      json.member("eventsHidden", eventsHidden)
      json.member("firstSeenAt", seen?.firstAt)
      json.member("freeAccessSince", freeAccessSince)
      json.member("grants", grants)
      json.member("kind", kind)
      json.member("lastSeenAt", seen?.lastAt)
      json.member("purchases", purchases)
      json.member("refusedAttempts", refusedAttempts)
      json.member("sentences", sentences)
      json.member("trial", trial)
    }
  }
}

extension ReportedGrant: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("endsAt", endsAt)
      json.member("grant", grant)
      json.member("grantedBy", grantedBy)
      json.member("isOpen", isOpen)
      json.member("note", note)
      json.member("reason", reason)
      json.member("revokedAt", revokedAt)
      json.member("revokedBy", revokedBy)
      json.member("startsAt", startsAt)
      json.member("tier", tier)
    }
  }
}

extension ReportedTrial: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("endsAt", endsAt)
      json.member("isRunning", isRunning)
      json.member("note", note)
      json.member("startedAt", startedAt)
    }
  }
}

extension ReportedChild: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("childDeviceID", childDeviceID)
      json.member("name", name)
      json.member("pairedAt", pairedAt)
      json.member("pausedBecause", pausedBecause)
      json.member("status", status)
    }
  }
}
