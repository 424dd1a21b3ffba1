import AppStore
import CoreMetrics
import Customers
import Foundation
import PrometheusText
import Subscriptions

/// The metrics of committed notifications and of events in the store.
///
/// Everything is counted after its commit, so a fact that arrives twice, or by two routes, counts once.
package final class LedgerMetrics: Sendable {
  /// The failed writes of premium statuses to the apps' own tables.
  package let profileWriteFailures: Counter
  let registry: PrometheusRegistry
  let queue: Meter
  let commitTime: Recorder
  let committed: Counter
  let unavailable: Counter
  let failed: Counter
  private let lag: Recorder
  private let notifications: HandleTable<NotificationKey, Counter>
  private let business: HandleTable<String, BusinessMetrics>

  private struct NotificationKey: Hashable {
    var type: String
    var subtype: String
    var outcome: String
  }

  package init(_ registry: PrometheusRegistry) {
    self.registry = registry
    profileWriteFailures = Counter(label: "receiptd_profile_write_failures_total", factory: registry)
    queue = Meter(label: "receiptd_ledger_queue_entries", factory: registry)
    commitTime = Recorder(label: "receiptd_ledger_commit_seconds", factory: registry)
    func entries(_ outcome: String) -> Counter {
      Counter(label: "receiptd_ledger_entries_total", dimensions: [("outcome", outcome)], factory: registry)
    }
    committed = entries("committed")
    unavailable = entries("unavailable")
    failed = entries("failed")
    lag = Recorder(label: "receiptd_notification_lag_seconds", factory: registry)
    notifications = HandleTable { key in
      Counter(
        label: "receiptd_notifications_total",
        dimensions: [("type", key.type), ("subtype", key.subtype), ("outcome", key.outcome)],
        factory: registry)
    }
    business = HandleTable { BusinessMetrics(registry, app: $0) }
  }

  /// Creates the counters of these apps with value 0, so that alerts see the first increase.
  package func expect(_ apps: [String]) { for app in apps { _ = business[app] } }

  /// Counts a committed entry.
  func record(_ entry: LedgerEntry, _ receipt: LedgerReceipt) {
    committed.increment()
    if let notification = entry.notification, !entry.isReplay { record(notification, receipt) }
    // The entry's app is from the catalog, so clients cannot create labels.
    if let app = entry.app { business[app.bundleID].record(entry, receipt) }
  }

  /// Counts a notification without Apple's signature.
  func recordRefusedNotification() {
    notifications[NotificationKey(type: "unknown", subtype: "", outcome: "refused")].increment()
  }

  /// Counts a notification of version 1, which is refused.
  func recordVersion1Notification() {
    notifications[NotificationKey(type: "version 1", subtype: "", outcome: "refused")].increment()
  }

  /// Counts a refused notification of an app that is not configured and has sent too many.
  func recordLimitedNotification() {
    notifications[NotificationKey(type: "unknown", subtype: "", outcome: "rate_limited")].increment()
  }

  package func recordTrial(of app: App) { business[app.bundleID].trialsStarted.increment() }

  private func record(_ notification: KeptNotification, _ receipt: LedgerReceipt) {
    let outcome = receipt.isDuplicate ? "duplicate" : receipt.outcome ?? "recorded"
    notifications[
      NotificationKey(
        type: NotificationType.known.contains(notification.type) ? notification.type : "other",
        subtype: notification.subtype.map { Subtype.known.contains($0) ? $0 : "other" } ?? "",
        outcome: outcome)
    ].increment()
    // A notification from the history says nothing about the delay of the App Store's posts.
    guard !receipt.isDuplicate, notification.source == .webhook else { return }
    lag.record(max(0, notification.receivedAt.timeIntervalSince(notification.signedAt)))
  }
}

/// The business metrics of an app, for production purchases only.
struct BusinessMetrics: Sendable {
  let trialsStarted: Counter
  private let trialsConverted: Counter
  private let purchases: Counter
  private let charges: Counter
  private let renewals: Counter
  private let renewalsDue: Counter
  private let refunds: Counter

  /// The oldest event that counts, in seconds. Older ones are restored purchases, or a history that is read for the first
  /// time.
  private static let recent: TimeInterval = 7 * 86_400

  init(_ registry: PrometheusRegistry, app: String) {
    func counter(_ name: String) -> Counter {
      Counter(label: name, dimensions: [("app", app)], factory: registry)
    }
    trialsStarted = counter("receiptd_trials_started_total")
    trialsConverted = counter("receiptd_trials_converted_total")
    purchases = counter("receiptd_purchases_total")
    charges = counter("receiptd_charges_total")
    renewals = counter("receiptd_renewals_total")
    renewalsDue = counter("receiptd_renewals_due_total")
    refunds = counter("receiptd_refunds_total")
  }

  func record(_ entry: LedgerEntry, _ receipt: LedgerReceipt) {
    for event in receipt.storeEvents where event.isProduction && entry.instant - event.at < Self.recent {
      if event.isPaid { charges.increment() }
      if event.startsTrial { trialsStarted.increment() }
      if event.isPaid && event.followsFreePeriods { trialsConverted.increment() }
      switch event.kind {
      case .purchase: purchases.increment()
      case .renewal where event.followsFreePeriods: break
      case .renewal:
        renewals.increment()
        renewalsDue.increment()
      case .refund: refunds.increment()
      }
    }
    if let notification = entry.notification, !entry.isReplay, !receipt.isDuplicate,
      notification.type == NotificationType.expired.rawValue,
      notification.environment == Environment.production.rawValue,
      entry.instant - notification.signedAt < Self.recent, !hasOnlyFreePeriods(receipt)
    {
      renewalsDue.increment()
    }
    if isConversion(receipt) { trialsConverted.increment() }
  }

  /// Whether the purchase has only free periods, whose end is not a lost renewal.
  private func hasOnlyFreePeriods(_ receipt: LedgerReceipt) -> Bool {
    receipt.subscription != nil && receipt.firstPaidAt == nil
  }

  /// Whether this entry is the first to show a paid purchase of a customer with a trial.
  private func isConversion(_ receipt: LedgerReceipt) -> Bool {
    guard let now = receipt.subscription, now.owner != nil, let paidAt = receipt.firstPaidAt,
      receipt.previous?.owner == nil || receipt.previousFirstPaidAt == nil,
      now.subscription.current.environment == .production, let customerRecords = receipt.customerRecords,
      let trial = customerRecords.trial
    else { return false }
    return trial.environment == .production && trial.startedAt <= paidAt
      && customerRecords.subscriptions.count == 1
  }
}

extension Date {
  fileprivate static func - (later: Date, earlier: Date) -> TimeInterval {
    later.timeIntervalSince(earlier)
  }
}

extension NotificationType {
  /// The types that become labels; an unknown type is `other`.
  fileprivate static let known = Set(supported.map(\.rawValue))
}

extension Subtype {
  /// The subtypes that become labels; an unknown subtype is `other`.
  fileprivate static let known: Set<String> = Set(
    [
      initialBuy, resubscribe, downgrade, upgrade, autoRenewEnabled, autoRenewDisabled, voluntary,
      billingRetry,
      priceIncrease, gracePeriod, pending, accepted, billingRecovery, productNotForSale, summary, failure,
      unreported, created, activeTokenReminder,
    ].map(\.rawValue))
}

/// A purchase, renewal or refund that was not known before.
struct StoreEvent: Sendable, Hashable {
  enum Kind: Sendable { case purchase, renewal, refund }

  var kind: Kind
  /// The time of the event.
  var at: Date
  var isProduction: Bool
  /// Whether the purchaser was charged.
  var isPaid = false
  /// Whether all periods before it are free. Then it is the first paid period and not a renewal of one.
  var followsFreePeriods = false
  /// Whether it begins a trial of the App Store: a free first period.
  var startsTrial = false

  /// The events of a new or changed transaction.
  /// - Parameters:
  ///   - known: the transaction as it was known before.
  ///   - facts: all facts of the purchase, this transaction included.
  static func events(
    of record: TransactionRecord, after known: TransactionFact?, in facts: SubscriptionFacts
  ) -> [StoreEvent] {
    let fact = record.fact
    // A family member's transaction counts nothing: the purchaser's transaction has the same events.
    guard fact.ownership == "PURCHASED" else { return [] }
    var events: [StoreEvent] = []
    let isProduction = fact.environment == .production
    if known == nil, !facts.isRestored(fact) {
      events.append(
        StoreEvent(
          kind: record.isRenewal ? .renewal : .purchase, at: fact.purchaseDate, isProduction: isProduction,
          isPaid: fact.isPaid, followsFreePeriods: facts.followsFreePeriods(fact),
          startsTrial: fact.kind == .autoRenewable && !fact.isPaid
            && fact.transactionID == fact.originalTransactionID))
    }
    if let revoked = fact.revocationDate, known?.revocationDate == nil {
      events.append(StoreEvent(kind: .refund, at: revoked, isProduction: isProduction))
    }
    return events
  }
}
