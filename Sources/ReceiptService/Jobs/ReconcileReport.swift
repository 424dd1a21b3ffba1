import AppStore
import Foundation
import Subscriptions

import enum HTTP.RFC3339

/// The result of one reconciliation of an app in one environment.
public struct ReconcileReport: Sendable {
  /// The app.
  public var bundleID: String
  /// Apple's `environment`: Production or Sandbox.
  public var environment: String
  /// The time of the start.
  public var startedAt: Date
  /// The start of the notification history that the run should read.
  public var readFrom: Date
  /// The end of the history that was read; `nil` if none was.
  public var readUntil: Date?
  /// The number of notifications in that history.
  public var notificationsRead = 0
  /// When the first of them was signed.
  var firstSignedAt: Date?
  /// The number of these that had never arrived.
  public var notificationsMissed = 0
  /// The number of missed notifications that wait for a replay.
  public var notificationsWaiting = 0
  /// The number of notifications whose signature is not the App Store's.
  public var notificationsRefused = 0
  /// The number of notifications that could not be written.
  public var notificationsFailed = 0
  /// The number of overdue subscriptions whose status was requested.
  public var statusesAsked = 0
  /// The number of these whose request or write failed; the next run retries them.
  public var statusesFailed = 0
  /// The first purchases that were corrected.
  public private(set) var repairs: [Repair] = []
  /// The number of purchases that were corrected.
  public private(set) var repairCount = 0
  /// The reason why the run is incomplete; `nil` if it is complete.
  public private(set) var failure: String?

  private static let repairsKept = 100

  init(bundleID: String, environment: Environment, startedAt: Date, readFrom: Date) {
    self.bundleID = bundleID
    self.environment = environment.rawValue
    self.startedAt = startedAt
    self.readFrom = readFrom
  }

  /// A purchase whose row was corrected.
  public struct Repair: Sendable {
    /// The purchase.
    public var originalTransactionID: String
    /// The source of the correction: a notification's type and subtype, or `status`.
    public var cause: String
    /// Status and end before; `nil` if the purchase was not known.
    public var before: String?
    /// Status and end now.
    public var after: String

    /// `nil` if the facts changed nothing that a client sees.
    init?(_ receipt: LedgerReceipt, cause: String, at instant: Date) {
      guard receipt.isNews, let now = receipt.subscription else { return nil }
      before = receipt.previous.map { $0.subscription.summary(at: instant) }
      after = now.subscription.summary(at: instant)
      guard before != after else { return nil }
      originalTransactionID = now.originalTransactionID
      self.cause = cause
    }
  }

  /// Adds a reason why the run is incomplete. A repeated reason is added once.
  mutating func add(failure reason: String) {
    guard let failure else { return self.failure = reason }
    if failure != reason { self.failure = "\(failure); \(reason)" }
  }

  /// Adds the correction that a fact made, if it made one.
  mutating func addRepair(_ receipt: LedgerReceipt, cause: String, at instant: Date) {
    guard let repair = Repair(receipt, cause: cause, at: instant) else { return }
    repairCount += 1
    if repairs.count < Self.repairsKept { repairs.append(repair) }
  }

  /// The report for the operator: a summary, then a line for each repair.
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
  /// The product, status and end in words.
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
