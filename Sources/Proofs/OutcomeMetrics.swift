import CoreMetrics
import Foundation
import HTTP
import Postgres
import PrometheusText
import Requests
import Subscriptions

/// The outcomes of clients' requests: `ok` or the public error code.
package struct OutcomeMetrics: Sendable {
  private let validations: MetricFamily<Counter, String, String>
  private let profileSyncs: MetricFamily<Counter, String, String>
  private let bareIDJoins: MetricFamily<Counter, String>

  package init(_ registry: PrometheusRegistry) {
    validations = registry.counters(
      "receiptd_validations_total", "Responses to validate, by app and ok or the error code.", "app",
      "outcome")
    profileSyncs = registry.counters(
      "receiptd_profile_syncs_total", "Responses to profile syncs, by app and ok or the error code.", "app",
      "outcome")
    bareIDJoins = registry.counters(
      "receiptd_bare_id_joins_total",
      "Devices that joined another device's purchase with a bare transaction id or a legacy receipt.", "app")
  }

  /// Creates the counters of these apps with value 0, so that an alert sees the first increase.
  package func expect(_ apps: [App]) {
    for app in apps where app.customer == .device { _ = bareIDJoins[app.bundleID] }
  }

  /// Counts a device that joined another device's purchase with a bare transaction id or a legacy receipt.
  func joinedByBareID(_ app: App) { bareIDJoins[app.bundleID].increment() }

  /// Counts a response to validate.
  /// - Parameter app: `nil` if no proof verified: a client's claim does not become a label.
  func validated(_ app: App?, _ error: (any Error)? = nil) {
    validations[app?.bundleID ?? "unknown", Self.label(for: error)].increment()
  }

  /// Counts a response to a profile sync.
  /// - Parameter apps: the apps for which the client's token is valid.
  func synced(_ apps: [App], _ error: (any Error)? = nil) {
    let app = apps.count == 1 ? apps[0].bundleID : "several"
    profileSyncs[app, Self.label(for: error)].increment()
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
