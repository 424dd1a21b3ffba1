import CoreMetrics
import HTTP
import Postgres
import PrometheusText
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
