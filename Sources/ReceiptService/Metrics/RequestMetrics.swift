import CoreMetrics
import HTTP
import HTTPTypes
import PrometheusText
import Synchronization

/// Counts the responses of one server, by route, method and code.
///
/// It is called for every request, so it finds a counter by the indices of the route and of the status, without a lock
/// and without building a string.
package final class RequestMetrics: Sendable {
  private let routes: [RouteMetrics]
  private let unmatched: RouteMetrics

  fileprivate init(_ families: RequestFamilies, server: String, router: Router) {
    routes = router.routes.map { route in
      RouteMetrics(families, server: server, method: route.method.rawValue, route: route.pattern)
    }
    unmatched = RouteMetrics(families, server: server, method: "any", route: "unmatched")
  }

  /// Records a response; the server calls it as `onResponse`.
  @Sendable
  package func record(_ summary: RequestSummary) {
    // HEAD counts as GET, whose route answers it. A request without a route may have any method.
    (summary.routeIndex.map { routes[$0] } ?? unmatched).record(summary)
  }
}

/// The metrics of responses and connections, by server.
struct RequestFamilies: Sendable {
  fileprivate let responses: MetricFamily<Counter, String, String, String, String>
  fileprivate let durations: MetricFamily<CoreMetrics.Timer, String, String, String>
  fileprivate let connections: MetricFamily<Meter, String>

  /// The names of the metrics.
  static let responses = "receiptd_http_requests_total"
  static let durations = "receiptd_http_request_seconds"

  init(_ registry: PrometheusRegistry) {
    responses = registry.counters(
      Self.responses, "Responses, by route, method and status code.", "server", "method",
      "route", "code")
    durations = registry.timers(
      Self.durations,
      "From the first byte of a request to the hand-over of the response, in seconds.", "server", "method",
      "route")
    connections = registry.gauges("receiptd_http_connections", "Open connections.", "server")
  }
}

private final class RouteMetrics: Sendable {
  private let duration: CoreMetrics.Timer
  private let codes: [CodeCounter]
  private let make: @Sendable (_ code: String) -> Counter

  init(_ families: RequestFamilies, server: String, method: String, route: String) {
    duration = families.durations[server, method, route]
    codes = Self.statuses.map { _ in CodeCounter() } + [CodeCounter()]
    make = { code in families.responses[server, method, route, code] }
  }

  func record(_ summary: RequestSummary) {
    duration.recordNanoseconds(Int64(clamping: summary.nanoseconds))
    let place = (0..<600).contains(summary.status) ? Int(Self.places[summary.status]) : Self.statuses.count
    codes[place].counter { make(place < Self.statuses.count ? "\(Self.statuses[place])" : "other") }
      .increment()
  }

  /// The statuses that this service answers.
  private static let statuses = [
    200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 413, 414, 415, 417, 422, 429, 431, 500, 501,
    503,
    505,
  ]

  /// The index in `statuses` of each status; `statuses.count` for all others.
  private static let places = (0..<600).map { UInt8(statuses.firstIndex(of: $0) ?? statuses.count) }
}

/// A counter that is created at its first use.
private final class CodeCounter: Sendable {
  private let handle = AtomicLazyReference<Counter>()

  func counter(_ make: () -> Counter) -> Counter { handle.load() ?? handle.storeIfNil(make()) }
}

extension ServiceMetrics {
  /// The metrics of a server's responses.
  /// - Parameter name: the label `server`: `clients` or `operators`.
  package func requests(of router: Router, server name: String) -> RequestMetrics {
    RequestMetrics(requests, server: name, router: router)
  }

  /// Updates the gauge of a server's connections at each scrape.
  package func watch(_ server: HTTPServer, named name: String) {
    let connections = requests.connections[name]
    registry.beforeRendering { [weak server] in connections.set(server?.connectionCount ?? 0) }
  }
}
