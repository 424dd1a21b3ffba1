import AppStore
import CoreMetrics
import FoundationEssentials
import HTTP
import HTTPTypes
import PrometheusText

extension Service {
  /// `GET /metrics`. It asks nobody: it answers while the database is away.
  func addMetricsRoute(to router: inout Router) {
    router.onImmediate(.get, "/metrics") { _ in
      Response(
        headers: [.contentType: PrometheusRegistry.contentType], body: self.metrics.registry.render())
    }
  }
}

extension Service {
  /// Reads what only the database knows, again and again.
  func readFiguresForever() async {
    await figures.runForever(catalogLanes)
  }

  private var catalogLanes: [OutboxLane] { outbox.catalog.apps.flatMap(\.outboxLanes) }

  /// Reads what only the database knows, once.
  func readFigures() async {
    await figures.read(catalogLanes)
    await figures.readTrials()
  }
}

extension ServiceMetrics {
  /// Shows until when all of the roots are valid.
  func show(_ roots: TrustedRoots) {
    guard let end = roots.validity.map(\.until).min() else { return }
    Meter(label: "receiptd_roots_valid_until_seconds", factory: registry).set(end.timeIntervalSince1970)
  }
}
