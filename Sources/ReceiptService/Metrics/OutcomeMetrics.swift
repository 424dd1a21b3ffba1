import AppStore
import CoreMetrics
import Foundation
import HTTP
import Postgres
import PrometheusText
import Requests
import Subscriptions

/// The outcomes of clients' requests: `ok` or the public error code.
struct OutcomeMetrics: Sendable {
  private let validations: HandleTable<Key, Counter>
  private let profileSyncs: HandleTable<Key, Counter>
  private let events: HandleTable<Key, Counter>
  private let eventsRefused: HandleTable<String, Counter>
  private let bareIDJoins: HandleTable<String, Counter>
  let profileWriteFailures: Counter

  private struct Key: Hashable {
    var app: String
    var outcome: String
  }

  init(_ registry: PrometheusRegistry) {
    func table(_ name: String) -> HandleTable<Key, Counter> {
      HandleTable { key in
        Counter(label: name, dimensions: [("app", key.app), ("outcome", key.outcome)], factory: registry)
      }
    }
    validations = table("receiptd_validations_total")
    profileSyncs = table("receiptd_profile_syncs_total")
    events = HandleTable { key in
      Counter(
        label: "receiptd_events_total", dimensions: [("app", key.app), ("name", key.outcome)],
        factory: registry)
    }
    eventsRefused = HandleTable { app in
      Counter(label: "receiptd_events_refused_total", dimensions: [("app", app)], factory: registry)
    }
    bareIDJoins = HandleTable { app in
      Counter(label: "receiptd_bare_id_joins_total", dimensions: [("app", app)], factory: registry)
    }
    profileWriteFailures = Counter(label: "receiptd_profile_write_failures_total", factory: registry)
  }

  /// Creates the counters of these apps with value 0, so that an alert sees the first increase.
  func expect(_ apps: [App]) {
    for app in apps {
      _ = eventsRefused[app.bundleID]
      for name in EventRows.Kept.names { _ = events[Key(app: app.bundleID, outcome: name)] }
      if app.customer == .device { _ = bareIDJoins[app.bundleID] }
    }
  }

  /// Counts a device that joined another device's purchase with a bare transaction id or a legacy receipt.
  func joinedByBareID(_ app: App) { bareIDJoins[app.bundleID].increment() }

  /// Counts new events of clients. Names other than the usual ones are `other`: a client's text does not become a label.
  func kept(_ events: EventRows.Kept, of app: App) {
    for (name, count) in events.byName {
      self.events[Key(app: app.bundleID, outcome: name)].increment(by: count)
    }
  }

  /// Counts a request with events that was refused because the app's daily bytes are used up.
  func refusedEvents(of app: App) { eventsRefused[app.bundleID].increment() }

  /// Counts a response to validate.
  /// - Parameter app: `nil` if no proof verified: a client's claim does not become a label.
  func validated(_ app: App?, _ error: (any Error)? = nil) {
    validations[Key(app: app?.bundleID ?? "unknown", outcome: Self.label(for: error))].increment()
  }

  /// Counts a response to a profile sync.
  /// - Parameter apps: the apps for which the client's token is valid.
  func synced(_ apps: [App], _ error: (any Error)? = nil) {
    let app = apps.count == 1 ? apps[0].bundleID : "several"
    profileSyncs[Key(app: app, outcome: Self.label(for: error))].increment()
  }

  private static func label(for error: (any Error)?) -> String {
    switch error {
    case nil: "ok"
    case let problem as Problem: problem.code.rawValue
    case let error as PostgresError where error.isAnsweredUnavailable:
      ServiceError.databaseUnavailable.code.rawValue
    case is CancellationError: "cancelled"
    default: ServiceError.internalError.code.rawValue
    }
  }
}

/// The outcomes of verifications of signed data.
struct VerificationMetrics: Sendable {
  /// The counters of successes by subject.
  private let good: [VerificationFailure.Subject: Counter]
  private let bad: HandleTable<Failure, Counter>

  private struct Failure: Hashable {
    var subject: VerificationFailure.Subject
    var code: VerificationFailure.Code
  }

  init(_ registry: PrometheusRegistry) {
    func counter(_ subject: VerificationFailure.Subject, _ outcome: String) -> Counter {
      Counter(
        label: "receiptd_verifications_total",
        dimensions: [("subject", subject.rawValue), ("outcome", outcome)], factory: registry)
    }
    let subjects: [VerificationFailure.Subject] = [
      .notification, .transaction, .renewalInfo, .appTransaction,
    ]
    good = Dictionary(uniqueKeysWithValues: subjects.map { ($0, counter($0, "ok")) })
    bad = HandleTable { failure in
      Counter(
        label: "receiptd_verifications_total",
        dimensions: [("subject", failure.subject.rawValue), ("outcome", failure.code.rawValue)],
        factory: registry)
    }
  }

  @Sendable
  func record(_ subject: VerificationFailure.Subject, _ failure: VerificationFailure.Code?) {
    if let failure {
      bad[Failure(subject: subject, code: failure)].increment()
    } else {
      good[subject]?.increment()
    }
  }
}

/// Counts refused access tokens by reason.
struct TokenRefusalMetrics: Sendable {
  private let refusals: [TokenRefusal: Counter]

  init(_ registry: PrometheusRegistry) {
    refusals = Dictionary(
      uniqueKeysWithValues: TokenRefusal.allCases.map { refusal in
        (
          refusal,
          Counter(
            label: "receiptd_token_refusals_total", dimensions: [("reason", refusal.rawValue)],
            factory: registry)
        )
      })
  }

  func count(_ refusal: TokenRefusal) { refusals[refusal]?.increment() }
}

/// The age of the public keys that verify each app's tokens, and the outcomes of their fetches.
struct PublicKeyMetrics: Sendable {
  private let refreshes: HandleTable<Refresh, Counter>
  private let fetchedAt: HandleTable<String, Meter>
  private let isFailing: HandleTable<String, Meter>

  private struct Refresh: Hashable {
    var app: String
    var outcome: String
  }

  init(_ registry: PrometheusRegistry) {
    refreshes = HandleTable { key in
      Counter(
        label: "receiptd_jwks_refreshes_total", dimensions: [("app", key.app), ("outcome", key.outcome)],
        factory: registry)
    }
    fetchedAt = HandleTable { app in
      Meter(label: "receiptd_jwks_fetched_seconds", dimensions: [("app", app)], factory: registry)
    }
    isFailing = HandleTable { app in
      Meter(label: "receiptd_jwks_failing", dimensions: [("app", app)], factory: registry)
    }
  }

  func fetched(_ app: String) { refreshes[Refresh(app: app, outcome: "ok")].increment() }

  func failed(_ app: String) { refreshes[Refresh(app: app, outcome: "failed")].increment() }

  /// - Parameter fetchedAt: the time of the fetch of the keys in use; `nil` without keys.
  func show(_ app: String, fetchedAt instant: Date?, isFailing failing: Bool) {
    fetchedAt[app].set(instant?.timeIntervalSince1970 ?? 0)
    isFailing[app].set(failing ? 1 : 0)
  }

  /// Resets the gauges of an app that a reload removed, so that no alert keeps firing.
  func forget(_ app: String) { show(app, fetchedAt: nil, isFailing: false) }
}

/// Counts refused requests that are not kept for support.
struct RefusedAttemptMetrics: Sendable {
  /// The limit that an attempt exceeded.
  enum Limit: String, CaseIterable, Sendable {
    /// Of one address and day, on this server.
    case address
    /// Of the attempts that wait for the next write.
    case buffer
    /// Of one network and day, or of all attempts of a day, on all servers.
    case day
  }

  private let dropped: [Limit: Counter]

  init(_ registry: PrometheusRegistry) {
    dropped = Dictionary(
      uniqueKeysWithValues: Limit.allCases.map { limit in
        (
          limit,
          Counter(
            label: "receiptd_refused_attempts_dropped_total", dimensions: [("limit", limit.rawValue)],
            factory: registry)
        )
      })
  }

  func drop(_ limit: Limit, _ count: Int = 1) { dropped[limit]?.increment(by: count) }
}
