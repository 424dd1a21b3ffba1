import AppStore
import CoreMetrics
import Foundation
import HTTP
import HTTPTypes
import PrometheusText

extension Service {
  /// `GET /metrics`. It makes no query, so it answers while the database is unavailable.
  func addMetricsRoute(to router: inout Router) {
    router.onImmediate(.get, "/metrics") { _ in
      Response(
        headers: [.contentType: PrometheusRegistry.contentType], body: self.metrics.registry.render())
    }
  }
}

extension ServiceMetrics {
  /// Sets the gauge of the time until which all roots are valid.
  func show(_ roots: TrustedRoots) {
    guard let end = roots.validity.map(\.until).min() else { return }
    Meter(label: "receiptd_roots_valid_until_seconds", factory: registry).set(end.timeIntervalSince1970)
  }
}
