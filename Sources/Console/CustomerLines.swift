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
    state = pairing.because
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

struct ShownDelivery: Sendable {
  let what: String
  let endpoint: String?
  let state: String
  let level: String
  let created: Moment
  let delivered: Moment?
  let next: Moment?
  let attempts: Int
  let problem: String?

  init(_ delivery: ReportedDelivery, from now: Date) {
    what = delivery.what.withCapital
    endpoint = delivery.endpoint
    state = delivery.state
    level = delivery.isInTrouble ? "bad" : delivery.deliveredAt == nil ? "" : "good"
    created = Moment(delivery.createdAt, from: now)
    delivered = delivery.deliveredAt.map { Moment($0, from: now) }
    next = delivery.deliveredAt == nil ? delivery.nextAttemptAt.map { Moment($0, from: now) } : nil
    attempts = delivery.attempts
    problem = delivery.deliveredAt == nil ? delivery.lastError : nil
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
