import CoreMetrics
import Foundation
import PrometheusText

/// The metrics of access tokens, and of the public keys that verify them.
package struct AuthenticationMetrics: Sendable {
  let publicKeys: PublicKeyMetrics
  let tokenRefusals: TokenRefusalMetrics

  package init(_ registry: PrometheusRegistry) {
    publicKeys = PublicKeyMetrics(registry)
    tokenRefusals = TokenRefusalMetrics(registry)
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
