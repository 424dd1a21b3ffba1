import CoreMetrics
import Foundation
import PrometheusText

/// The metrics of access tokens, and of the public keys that verify them.
package struct AuthenticationMetrics: Sendable {
  let tokenRefusals: MetricFamily<Counter, TokenRefusal>
  /// The fetches of public keys, by app and outcome.
  let keyRefreshes: MetricFamily<Counter, String, String>
  private let keysFetchedAt: MetricFamily<Meter, String>
  private let keysFailing: MetricFamily<Meter, String>

  package init(_ registry: PrometheusRegistry) {
    tokenRefusals = registry.counters(
      "receiptd_token_refusals_total", "Refused access tokens, by reason.", "reason")
    keyRefreshes = registry.counters(
      "receiptd_jwks_refreshes_total", "Fetches of the public keys that verify tokens, by outcome.",
      "app", "outcome")
    keysFetchedAt = registry.gauges(
      "receiptd_jwks_fetched_seconds",
      "Time of the fetch of the public keys in use, in seconds since 1970; 0 without keys.", "app")
    keysFailing = registry.gauges(
      "receiptd_jwks_failing", "1 if the last fetch of the public keys failed.", "app")
  }

  /// Shows the age of an app's public keys.
  /// - Parameter fetchedAt: the time of the fetch of the keys in use; `nil` without keys.
  func showKeys(_ app: String, fetchedAt instant: Date?, isFailing: Bool) {
    keysFetchedAt[app].set(instant?.timeIntervalSince1970 ?? 0)
    keysFailing[app].set(isFailing ? 1 : 0)
  }
}
