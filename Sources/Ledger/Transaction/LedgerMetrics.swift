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
  private let notifications: MetricFamily<Counter, String, String, String>
  private let business: BusinessMetrics

  package init(_ registry: PrometheusRegistry) {
    self.registry = registry
    profileWriteFailures = registry.counter(
      "receiptd_profile_write_failures_total",
      "Failed writes of premium statuses to an app's own table; they are retried.")
    queue = registry.gauge("receiptd_ledger_queue_entries", "Ledger entries that wait for their commit.")
    commitTime =
      registry.histograms(
        "receiptd_ledger_commit_seconds",
        "From the begin to the commit of a ledger transaction, in seconds.")[]
    let entries: MetricFamily<Counter, String> = registry.counters(
      "receiptd_ledger_entries_total", "Ledger entries, by outcome.", "outcome")
    committed = entries["committed"]
    unavailable = entries["unavailable"]
    failed = entries["failed"]
    lag =
      registry.histograms(
        "receiptd_notification_lag_seconds",
        "From the signing of a posted notification to its arrival, in seconds.",
        buckets: [0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400])[]
    notifications = registry.counters(
      "receiptd_notifications_total", "App Store notifications, by type, subtype and outcome.",
      "type", "subtype", "outcome")
    business = BusinessMetrics(registry)
  }

  /// Creates the counters of these apps with value 0, so that alerts see the first increase.
  package func expect(_ apps: [String]) {
    for app in apps { for family in business.all { _ = family[app] } }
  }

  /// Counts a committed entry.
  func record(_ entry: LedgerEntry, _ receipt: LedgerReceipt) {
    committed.increment()
    if let notification = entry.notification, !entry.isReplay { record(notification, receipt) }
    // The entry's app is from the catalog, so clients cannot create labels.
    if let app = entry.app { business.record(entry, receipt, of: app.bundleID) }
  }

  /// Counts a notification without Apple's signature.
  func recordRefusedNotification() {
    notifications["unknown", "", "refused"].increment()
  }

  /// Counts a notification of version 1, which is refused.
  func recordVersion1Notification() {
    notifications["version 1", "", "refused"].increment()
  }

  /// Counts a refused notification of an app that is not configured and has sent too many.
  func recordLimitedNotification() {
    notifications["unknown", "", "rate_limited"].increment()
  }

  package func recordTrial(of app: App) { business.trialsStarted[app.bundleID].increment() }

  private func record(_ notification: KeptNotification, _ receipt: LedgerReceipt) {
    let outcome = receipt.isDuplicate ? "duplicate" : receipt.outcome ?? "recorded"
    notifications[
      NotificationType.known.contains(notification.type) ? notification.type : "other",
      notification.subtype.map { Subtype.known.contains($0) ? $0 : "other" } ?? "", outcome
    ].increment()
    // A notification from the history says nothing about the delay of the App Store's posts.
    guard !receipt.isDuplicate, notification.source == .webhook else { return }
    lag.record(max(0, notification.receivedAt.timeIntervalSince(notification.signedAt)))
  }
}

/// The business metrics by app, for production purchases only.
struct BusinessMetrics: Sendable {
  let trialsStarted: MetricFamily<Counter, String>
  private let trialsConverted: MetricFamily<Counter, String>
  private let purchases: MetricFamily<Counter, String>
  private let charges: MetricFamily<Counter, String>
  private let renewals: MetricFamily<Counter, String>
  private let renewalsDue: MetricFamily<Counter, String>
  private let refunds: MetricFamily<Counter, String>

  /// The oldest event that counts, in seconds. Older ones are restored purchases, or a history that is read for the
  /// first time.
  private static let recent: TimeInterval = 7 * 86_400

  init(_ registry: PrometheusRegistry) {
    trialsStarted = registry.counters(
      "receiptd_trials_started_total",
      "Trials in production that began: of the app's own, and free first periods of the App Store.", "app")
    trialsConverted = registry.counters(
      "receiptd_trials_converted_total", "Trials in production that were paid for.", "app")
    purchases = registry.counters(
      "receiptd_purchases_total", "Purchases in production that were not known before.", "app")
    charges = registry.counters(
      "receiptd_charges_total",
      "Purchases and renewals in production that were paid for and not known before.", "app")
    renewals = registry.counters(
      "receiptd_renewals_total", "Renewals of paid periods in production that were not known before.", "app")
    renewalsDue = registry.counters(
      "receiptd_renewals_due_total",
      "Paid periods in production that ended: renewals, and subscriptions that expired instead.", "app")
    refunds = registry.counters(
      "receiptd_refunds_total", "Refunds in production that were not known before.", "app")
  }

  var all: [MetricFamily<Counter, String>] {
    [trialsStarted, trialsConverted, purchases, charges, renewals, renewalsDue, refunds]
  }

  func record(_ entry: LedgerEntry, _ receipt: LedgerReceipt, of app: String) {
    for event in receipt.storeEvents where event.isProduction && entry.instant - event.at < Self.recent {
      if event.isPaid { charges[app].increment() }
      if event.startsTrial { trialsStarted[app].increment() }
      if event.isPaid && event.followsFreePeriods { trialsConverted[app].increment() }
      switch event.kind {
      case .purchase: purchases[app].increment()
      case .renewal where event.followsFreePeriods: break
      case .renewal:
        renewals[app].increment()
        renewalsDue[app].increment()
      case .refund: refunds[app].increment()
      }
    }
    if let notification = entry.notification, !entry.isReplay, !receipt.isDuplicate,
      notification.type == NotificationType.expired.rawValue,
      notification.environment == Environment.production.rawValue,
      entry.instant - notification.signedAt < Self.recent, !hasOnlyFreePeriods(receipt)
    {
      renewalsDue[app].increment()
    }
    if isConversion(receipt) { trialsConverted[app].increment() }
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
    // Each period counts once, by the first of its transactions that comes.
    let copies = facts.copies(of: fact)
    if known == nil, copies.isEmpty, !facts.isRestored(fact) {
      events.append(
        StoreEvent(
          kind: record.isRenewal ? .renewal : .purchase, at: fact.purchaseDate, isProduction: isProduction,
          isPaid: fact.isPaid, followsFreePeriods: facts.followsFreePeriods(fact),
          startsTrial: fact.kind == .autoRenewable && !fact.isPaid
            && fact.transactionID == fact.originalTransactionID))
    }
    if let revoked = fact.revocationDate, known?.revocationDate == nil,
      copies.allSatisfy({ $0.revocationDate == nil })
    {
      events.append(StoreEvent(kind: .refund, at: revoked, isProduction: isProduction))
    }
    return events
  }
}
