import CoreMetrics
import Foundation
import HTTP
import Postgres
import PrometheusText
import Requests
import Subscriptions

/// The outcomes of clients' requests: `ok` or the public error code.
package struct OutcomeMetrics: Sendable {
  private let validations: HandleTable<Key, Counter>
  private let profileSyncs: HandleTable<Key, Counter>
  private let bareIDJoins: HandleTable<String, Counter>

  private struct Key: Hashable {
    var app: String
    var outcome: String
  }

  package init(_ registry: PrometheusRegistry) {
    func table(_ name: String) -> HandleTable<Key, Counter> {
      HandleTable { key in
        Counter(label: name, dimensions: [("app", key.app), ("outcome", key.outcome)], factory: registry)
      }
    }
    validations = table("receiptd_validations_total")
    profileSyncs = table("receiptd_profile_syncs_total")
    bareIDJoins = HandleTable { app in
      Counter(label: "receiptd_bare_id_joins_total", dimensions: [("app", app)], factory: registry)
    }
  }

  /// Creates the counters of these apps with value 0, so that an alert sees the first increase.
  package func expect(_ apps: [App]) {
    for app in apps {
      if app.customer == .device { _ = bareIDJoins[app.bundleID] }
    }
  }

  /// Counts a device that joined another device's purchase with a bare transaction id or a legacy receipt.
  func joinedByBareID(_ app: App) { bareIDJoins[app.bundleID].increment() }

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
