import CoreMetrics
import HTTP
import Postgres
import PrometheusText
import Subscriptions

/// What clients were told: `ok`, or the code of the problem, which is of a closed list.
struct OutcomeMetrics: Sendable {
  private let validations: HandleTable<Key, Counter>
  private let profileSyncs: HandleTable<Key, Counter>
  private let eventsRefused: HandleTable<String, Counter>
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
    eventsRefused = HandleTable { app in
      Counter(label: "receiptd_events_refused_total", dimensions: [("app", app)], factory: registry)
    }
    profileWriteFailures = Counter(label: "receiptd_profile_write_failures_total", factory: registry)
  }

  /// Shows these apps from now on, as having had no events refused: an alert sees an increase from zero.
  func expect(_ apps: [App]) { for app in apps { _ = eventsRefused[app.bundleID] } }

  /// A request with events was refused, because the app's bytes of the day are used up.
  func refusedEvents(of app: App) { eventsRefused[app.bundleID].increment() }

  /// An answer to validate.
  /// - Parameter app: nil where it was never known: what a client claims is no label.
  func validated(_ app: App?, _ error: (any Error)? = nil) {
    validations[Key(app: app?.bundleID ?? "unknown", outcome: Self.word(for: error))].increment()
  }

  /// An answer to a client that syncs.
  /// - Parameter apps: those that the client's token is good for.
  func synced(_ apps: [App], _ error: (any Error)? = nil) {
    let app = apps.count == 1 ? apps[0].bundleID : "several"
    profileSyncs[Key(app: app, outcome: Self.word(for: error))].increment()
  }

  private static func word(for error: (any Error)?) -> String {
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
