import Actions
import Configuration
import Customers
import Foundation
import HTTP
import Subscriptions
import Support

// What the page of a customer says in sentences, and the lines of its tables.

extension ReportedPurchase {
  /// Until when an unpaid purchase gives access if Apple cannot charge for it.
  func unpaidAccess(at now: Date) -> String {
    guard let paid = expiryDate else { return "" }
    let until = Moment(paid, from: now)
    let paidTime = paid > now ? "It is paid until \(until.text)" : "It was paid until \(until.text)"
    guard let end = plan.accessEndsAt, end > paid else {
      return "\(paidTime); access \(paid > now ? "ends" : "ended") then (\(until.relative))."
    }
    let access = Moment(end, from: now)
    return
      "\(paidTime); access \(end > now ? "ends" : "ended") \(access.text) (\(access.relative)), with grace."
  }
}

extension ReportedCustomer {
  /// When the paid time or the trial ends, when access ends, and what follows, each in a sentence; empty without access.
  func ends(at now: Date) -> [String] {
    guard entitlements.isAccessGranted else { return [] }
    func words(_ date: Date) -> String {
      let moment = Moment(date, from: now)
      return "\(moment.text) (\(moment.relative))"
    }
    let purchase = purchases.first { $0.originalTransactionID == decidingPurchase }
    var sentences: [String] = []
    var (end, access): (Date?, Date?) = (nil, nil)
    if let purchase {
      (end, access) = (purchase.expiryDate, purchase.plan.accessEndsAt ?? purchase.expiryDate)
      let renewal =
        if purchase.chargeRetriesUntil != nil {
          "Apple could not charge the next period"
        } else if purchase.willRenew {
          "it renews then"
        } else {
          "it does not renew"
        }
      if let end { sentences.append("\(end > now ? "Paid" : "Was paid") until \(words(end)); \(renewal).") }
    } else if ["trial", "grace"].contains(entitlements.status), let trial, let trialEnd = trial.endsAt {
      (end, access) = (trialEnd, accessUntil)
      sentences.append("The trial \(trialEnd > now ? "ends" : "ended") \(words(trialEnd)).")
    }
    if let end, let access, access > end {
      sentences.append("With grace, access ends \(words(access)) if nothing new is paid.")
    }
    if access == nil || access != accessUntil {
      let last = accessUntil.map { "until \(words($0))" } ?? "without end"
      sentences.append(
        end == nil
          ? "Access \(last)." : "With all that opens access, such as other purchases and grants: \(last).")
    }
    if let next = purchase?.next, next.tier != purchase?.tier {
      sentences.append(
        "Then comes the tier \(next.tier ?? "that the catalog does not know"): \(next.productID) from "
          + "\(words(next.startsAt)).")
    }
    return sentences
  }

  /// The latest refused request for a purchase of another customer.
  var attemptOnAnother: RefusedAttempt? {
    refusedAttempts.last { attempt in
      attempt.namesAnothersPurchase && !attempt.isSettled
        && !purchases.contains {
          [$0.transactionID, $0.originalTransactionID].contains(attempt.transactionID)
        }
    }
  }
}

struct ShownGrant: Sendable {
  let grant: String
  let tier: String
  let isOpen: Bool
  let starts: Moment
  let ends: Moment?
  let grantedBy: String
  let words: String
  let revoked: String?
  let exclusion: String?
  let revokePath: String?

  init(_ grant: ReportedGrant, for request: ConsoleRequest, of customer: String) {
    let now = request.instant
    self.grant = grant.grant
    tier = grant.tier
    isOpen = grant.isOpen
    starts = Moment(grant.startsAt, from: now)
    ends = grant.endsAt.map { Moment($0, from: now) }
    grantedBy = grant.grantedBy
    words = grant.reason
    revoked = grant.revokedAt.map { "Revoked \(Moment($0, from: now).text) by \(grant.revokedBy ?? "?")" }
    exclusion = grant.note
    // An agent revokes own grants alone.
    let may = request.may(.people) || request.may(.revokeGrant) && grant.grantedBy == request.person.name
    revokePath =
      grant.isOpen && may ? link("/console/act/revoke-grant", ["grant": grant.grant, "back": customer]) : nil
  }
}

struct ShownTrial: Sendable {
  let started: Moment
  let ends: Moment?
  let isRunning: Bool
  let exclusion: String?

  init(_ trial: ReportedTrial, from now: Date) {
    started = Moment(trial.startedAt, from: now)
    ends = trial.endsAt.map { Moment($0, from: now) }
    isRunning = trial.isRunning
    exclusion = trial.note
  }
}

/// What a page about a child's device says of a parent.
struct ShownPairing: Sendable {
  let child: String
  let childName: String?
  let app: String
  let parent: String
  let path: String
  let isActive: Bool
  let state: String
  /// Whether the page shows the parent, because nothing but the pairing names the child.
  let isBelow: Bool

  init(_ pairing: ReportedPairing, app: String?, isBelow: Bool) {
    (child, childName) = (pairing.childDeviceID, pairing.name)
    self.app = app ?? pairing.parent.bundleID
    parent = pairing.parent.customer.id
    path = Console.customerPath(parent)
    isActive = pairing.state == .active
    state =
      switch pairing.state {
      case .active: "it has what its parent has"
      case .beyondLimit: "more devices are paired than the parent's tier allows, and this one came later"
      case .parentWithoutAccess: "its parent has no access"
      case nil: "the parent's plan does not count it"
      }
    self.isBelow = isBelow
  }
}

struct ShownChild: Sendable {
  let id: String
  let path: String
  let name: String?
  let isActive: Bool
  let childStatus: String
  let paired: Moment
  let pausedBecause: String?

  init(_ child: ReportedChild, from now: Date) {
    id = child.childDeviceID
    path = Console.customerPath(child.childDeviceID)
    name = child.name
    isActive = child.status == "active"
    childStatus = child.status
    paired = Moment(child.pairedAt, from: now)
    pausedBecause = child.pausedBecause
  }
}

struct ShownEvent: Sendable {
  let at: Moment
  let signed: Moment?
  let received: Moment?
  let event: String
  let what: String
  let source: String
  /// A sign for the source, which the column names too.
  let sign: String

  init(_ event: TimelineEvent, from now: Date) {
    at = Moment(event.at, from: now)
    signed = event.signedAt.map { Moment($0, from: now) }
    received = event.receivedAt.map { Moment($0, from: now) }
    self.event = event.event
    what = event.what
    source = event.source
    sign =
      switch event.source {
      case "webhook": "↓"
      case "history": "↺"
      case "proof", "client": "↑"
      case "support": "●"
      default: "◷"
      }
  }
}

extension FeatureValue {
  /// The value in words.
  var words: String {
    switch self {
    case .flag(let isOn): isOn ? "yes" : "no"
    case .count(let count): "\(count)"
    case .amount(let amount): "\(amount)"
    case .word(let word): word
    case .unlimited: "no limit"
    }
  }
}
