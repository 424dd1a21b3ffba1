import AppStore
import Customers
import Foundation
import Ledger
import Subscriptions

import enum HTTP.RFC3339

/// The result of one reconciliation of an app in one environment.
package struct ReconcileReport: Sendable {
  /// The app.
  package var bundleID: String
  /// Apple's `environment`: Production or Sandbox.
  package var environment: String
  /// The time of the start.
  package var startedAt: Date
  /// The start of the notification history that the run should read.
  package var readFrom: Date
  /// The end of the history that was read; `nil` if none was.
  package var readUntil: Date?
  /// The number of notifications in that history.
  package var notificationsRead = 0
  /// When the first of them was signed.
  var firstSignedAt: Date?
  /// The number of these that had never arrived.
  package var notificationsMissed = 0
  /// The number of missed notifications that wait for a replay.
  package var notificationsWaiting = 0
  /// The number of notifications whose signature is not the App Store's.
  package var notificationsRefused = 0
  /// The number of notifications that could not be written.
  package var notificationsFailed = 0
  /// The number of overdue subscriptions whose status was requested.
  package var statusesAsked = 0
  /// The number of these whose request or write failed; the next run retries them.
  package var statusesFailed = 0
  /// The first purchases that were corrected.
  package private(set) var repairs: [PurchaseRepair] = []
  /// The number of purchases that were corrected.
  package private(set) var repairCount = 0
  /// The reason why the run is incomplete; `nil` if it is complete.
  package private(set) var failure: String?

  private static let repairsKept = 100

  init(bundleID: String, environment: Environment, startedAt: Date, readFrom: Date) {
    self.bundleID = bundleID
    self.environment = environment.rawValue
    self.startedAt = startedAt
    self.readFrom = readFrom
  }

  /// Adds a reason why the run is incomplete. A repeated reason is added once.
  mutating func add(failure reason: String) {
    guard let failure else { return self.failure = reason }
    if failure != reason { self.failure = "\(failure); \(reason)" }
  }

  /// Adds the correction that a fact made, if it made one.
  mutating func addRepair(_ receipt: LedgerReceipt, cause: String, at instant: Date) {
    guard let repair = PurchaseRepair(receipt, cause: cause, at: instant) else { return }
    repairCount += 1
    if repairs.count < Self.repairsKept { repairs.append(repair) }
  }

  /// The report for the operator: a summary, then a line for each repair.
  package var lines: [String] {
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
