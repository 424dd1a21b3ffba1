import CoreMetrics
import FoundationEssentials
import PrometheusText

/// How the public keys of each app's users are: how old, and whether they can be fetched.
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

  /// - Parameter fetchedAt: of the keys that are in use; `nil` where none are.
  func show(_ app: String, fetchedAt instant: Date?, isFailing failing: Bool) {
    fetchedAt[app].set(instant?.timeIntervalSince1970 ?? 0)
    isFailing[app].set(failing ? 1 : 0)
  }

  /// An app that is not configured any more, or has no public keys any more, must not keep an alert firing.
  func forget(_ app: String) { show(app, fetchedAt: nil, isFailing: false) }
}
