import AppStore
import FoundationEssentials
import Subscriptions

import enum HTTP.RFC3339

/// What one reconciling of an app in one environment read and repaired.
public struct ReconcileReport: Sendable {
  /// The app.
  public var bundleID: String
  /// Apple's `environment`: Production or Sandbox.
  public var environment: String
  /// When it began.
  public var startedAt: Date
  /// The beginning of the notification history that was wanted.
  public var readFrom: Date
  /// How far the history was read; `nil`: not at all.
  public var readUntil: Date?
  /// Notifications in that history.
  public var notificationsRead = 0
  /// Of these, those that had never arrived.
  public var notificationsMissed = 0
  /// Of the missed ones, those that wait for a replay.
  public var notificationsWaiting = 0
  /// Notifications in the history that do not carry the App Store's signature.
  public var notificationsRefused = 0
  /// Notifications in the history that could not be written.
  public var notificationsFailed = 0
  /// Subscriptions whose renewal was overdue without news, and of which the store was asked.
  public var statusesAsked = 0
  /// Of these, those whose answer could not be had or written, and of which the store is asked again.
  public var statusesFailed = 0
  /// What was brought up to date, the first of them.
  public private(set) var repairs: [Repair] = []
  /// How many were brought up to date.
  public private(set) var repairCount = 0
  /// Why it is not complete; `nil`: it is.
  public private(set) var failure: String?

  private static let repairsKept = 100

  init(bundleID: String, environment: Environment, startedAt: Date, readFrom: Date) {
    self.bundleID = bundleID
    self.environment = environment.rawValue
    self.startedAt = startedAt
    self.readFrom = readFrom
  }

  /// A purchase whose row did not say what is true.
  public struct Repair: Sendable {
    /// The purchase.
    public var originalTransactionID: String
    /// What told: a notification's type and subtype, or `status`.
    public var cause: String
    /// Status and end before; `nil` where the purchase was not known.
    public var before: String?
    /// Status and end now.
    public var after: String

    /// `nil` where the facts changed nothing that a client would notice.
    init?(_ receipt: LedgerReceipt, cause: String, at instant: Date) {
      guard receipt.isNews, let now = receipt.subscription else { return nil }
      before = receipt.previous.map { $0.subscription.summary(at: instant) }
      after = now.subscription.summary(at: instant)
      guard before != after else { return nil }
      originalTransactionID = now.originalTransactionID
      self.cause = cause
    }
  }

  /// Notes why it is not complete; a reason that is there already is noted once.
  mutating func note(failure reason: String) {
    guard let failure else { return self.failure = reason }
    if failure != reason { self.failure = "\(failure); \(reason)" }
  }

  /// Notes what a fact changed, if it changed anything.
  mutating func note(_ receipt: LedgerReceipt, cause: String, at instant: Date) {
    guard let repair = Repair(receipt, cause: cause, at: instant) else { return }
    repairCount += 1
    if repairs.count < Self.repairsKept { repairs.append(repair) }
  }

  /// For the operator: what was read, then a line for each repair.
  public var lines: [String] {
    var head = "\(bundleID) \(environment): read \(notificationsRead) notifications"
    head += " since \(RFC3339.string(from: readFrom)), \(notificationsMissed) had never arrived"
    if notificationsWaiting > 0 { head += " (\(notificationsWaiting) wait for a replay)" }
    if notificationsRefused > 0 { head += ", \(notificationsRefused) are not signed by the App Store" }
    head += "; asked about \(statusesAsked) overdue renewals; repaired \(repairCount)"
    if let failure { head += "; INCOMPLETE: \(failure)" }
    return [head]
      + repairs.map { repair in
        "  \(repair.originalTransactionID): \(repair.before ?? "unknown") -> \(repair.after) (\(repair.cause))"
      }
      + (repairCount > repairs.count ? ["  and \(repairCount - repairs.count) more"] : [])
  }
}

extension Subscription {
  /// What a client would notice of it, in words.
  fileprivate func summary(at instant: Date) -> String {
    let phase = phase(at: instant)
    var words = "\(productID(at: instant)) \(phase.status.rawValue)"
    if phase.storeStatus.rawValue != phase.status.rawValue { words += "/\(phase.storeStatus.rawValue)" }
    if let end = storeAccessEnds { words += " until \(RFC3339.string(from: end))" }
    if willRenew(at: instant), let renewsAs {
      words += renewsAs == productID ? ", renews" : ", renews as \(renewsAs)"
    }
    return words
  }
}
