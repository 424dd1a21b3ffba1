import AppStore
import CoreMetrics
import FoundationEssentials
import PrometheusText
import Subscriptions

/// What was committed: notifications, and what happened in the store.
///
/// Everything is counted when its commit is known, so a fact that is brought twice, or by two ways, counts once.
final class LedgerMetrics: Sendable {
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

  init(_ registry: PrometheusRegistry) {
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

  /// Shows these apps from now on, as having done nothing so far: a counter that appears with its first event hides it.
  func expect(_ apps: [String]) { for app in apps { _ = business[app] } }

  /// An entry was committed.
  func record(_ entry: LedgerEntry, _ receipt: LedgerReceipt) {
    committed.increment()
    if let notification = entry.notification, !entry.isReplay { record(notification, receipt) }
    // Only apps of the catalog get here, so nobody else makes up labels.
    if let app = entry.app { business[app.bundleID].record(entry, receipt) }
  }

  /// What was posted does not carry Apple's signature.
  func recordRefusedNotification() {
    notifications[NotificationKey(type: "unknown", subtype: "", outcome: "refused")].increment()
  }

  /// A notification of an app that is not configured was refused: there are too many of that app.
  func recordLimitedNotification() {
    notifications[NotificationKey(type: "unknown", subtype: "", outcome: "rate_limited")].increment()
  }

  func recordTrial(of app: App) { business[app.bundleID].trialsStarted.increment() }

  private func record(_ notification: KeptNotification, _ receipt: LedgerReceipt) {
    let outcome = receipt.isDuplicate ? "duplicate" : receipt.outcome ?? "recorded"
    notifications[
      NotificationKey(
        type: NotificationType.known.contains(notification.type) ? notification.type : "other",
        subtype: notification.subtype.map { Subtype.known.contains($0) ? $0 : "other" } ?? "",
        outcome: outcome)
    ].increment()
    // What was found in the history says nothing of how fast the App Store's posts arrive.
    guard !receipt.isDuplicate, notification.source == .webhook else { return }
    lag.record(max(0, notification.receivedAt.timeIntervalSince(notification.signedAt)))
  }
}

/// What an app's owner watches; only what was paid in production.
struct BusinessMetrics: Sendable {
  let trialsStarted: Counter
  private let trialsConverted: Counter
  private let purchases: Counter
  private let charges: Counter
  private let renewals: Counter
  private let renewalsDue: Counter
  private let refunds: Counter

  /// What is older than this when it is first seen (a restored purchase, a history that is read for the first time) is
  /// no event of these days.
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
      switch event.kind {
      case .purchase: purchases.increment()
      // The first paid period after a free one is a conversion.
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

  /// What ends unpaid was no paid period that could be renewed.
  private func hasOnlyFreePeriods(_ receipt: LedgerReceipt) -> Bool {
    receipt.subscription != nil && receipt.firstPaidAt == nil
  }

  /// Whether a first paid purchase and a customer with a trial have just come together, whichever of the two was known
  /// first.
  private func isConversion(_ receipt: LedgerReceipt) -> Bool {
    guard let now = receipt.subscription, now.owner != nil, let paidAt = receipt.firstPaidAt,
      receipt.previous?.owner == nil || receipt.previousFirstPaidAt == nil,
      now.subscription.current.environment == .production, let holdings = receipt.holdings,
      let trial = holdings.trial
    else { return false }
    return trial.environment == .production && trial.startedAt <= paidAt && holdings.subscriptions.count == 1
  }
}

extension Date {
  fileprivate static func - (later: Date, earlier: Date) -> TimeInterval {
    later.timeIntervalSince(earlier)
  }
}

extension NotificationType {
  /// Those that become labels: a type that nobody has heard of yet is `other`.
  fileprivate static let known = Set(understood.map(\.rawValue))
}

extension Subtype {
  /// Those that become labels.
  fileprivate static let known: Set<String> = Set(
    [
      initialBuy, resubscribe, downgrade, upgrade, autoRenewEnabled, autoRenewDisabled, voluntary,
      billingRetry,
      priceIncrease, gracePeriod, pending, accepted, billingRecovery, productNotForSale, summary, failure,
      unreported, created, activeTokenReminder,
    ].map(\.rawValue))
}
