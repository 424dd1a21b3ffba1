import CoreMetrics
public import HTTP
import HTTPTypes
import PrometheusText
import Synchronization

/// Counts the answers of one server, by route, method and code.
///
/// It is called for every request, so the handles of a route are found by its place in the router and by the place of
/// the status in a short list, without a lock and without a text.
public final class RequestMetrics: Sendable {
  private let registry: PrometheusRegistry
  private let server: String
  private let routes: [RouteMetrics]
  private let unmatched: RouteMetrics

  init(_ registry: PrometheusRegistry, server: String, router: Router) {
    self.registry = registry
    self.server = server
    routes = router.routes.map { route in
      RouteMetrics(registry, server: server, method: route.method.rawValue, route: route.pattern)
    }
    unmatched = RouteMetrics(registry, server: server, method: "any", route: "unmatched")
  }

  /// To be told of every answer, as `onResponse` of the server.
  @Sendable
  public func record(_ summary: RequestSummary) {
    // HEAD is answered by the route for GET and counts as one; what is unmatched may have any method.
    (summary.routeIndex.map { routes[$0] } ?? unmatched).record(summary)
  }
}

private final class RouteMetrics: Sendable {
  private let duration: CoreMetrics.Timer
  private let codes: [CodeCounter]
  private let make: @Sendable (_ code: String) -> Counter

  init(_ registry: PrometheusRegistry, server: String, method: String, route: String) {
    let labels = [("server", server), ("method", method), ("route", route)]
    duration = Timer(label: "receiptd_http_request_seconds", dimensions: labels, factory: registry)
    codes = Self.statuses.map { _ in CodeCounter() } + [CodeCounter()]
    make = { code in
      Counter(label: "receiptd_http_requests_total", dimensions: labels + [("code", code)], factory: registry)
    }
  }

  func record(_ summary: RequestSummary) {
    // Of the ways to record it the one that is not generic, which is the quickest by far.
    duration.recordNanoseconds(Int64(clamping: summary.nanoseconds))
    let place = (0..<600).contains(summary.status) ? Int(Self.places[summary.status]) : Self.statuses.count
    codes[place].counter { make(place < Self.statuses.count ? "\(Self.statuses[place])" : "other") }
      .increment()
  }

  /// Those that this service answers.
  private static let statuses = [
    200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 413, 414, 415, 417, 422, 429, 431, 500, 501,
    503,
    505,
  ]

  /// The place in `statuses` of each status; the place after the last for all others.
  private static let places = (0..<600).map { UInt8(statuses.firstIndex(of: $0) ?? statuses.count) }
}

/// A counter that comes to be when it is first needed.
private final class CodeCounter: Sendable {
  private let handle = AtomicLazyReference<Counter>()

  func counter(_ make: () -> Counter) -> Counter { handle.load() ?? handle.storeIfNil(make()) }
}

extension ServiceMetrics {
  /// Counts the answers of a server.
  /// - Parameter name: what to call it: `clients` or `operators`.
  public func requests(of router: Router, server name: String) -> RequestMetrics {
    RequestMetrics(registry, server: name, router: router)
  }

  /// Shows how many connections a server has.
  public func watch(_ server: HTTPServer, named name: String) {
    let connections = Meter(
      label: "receiptd_http_connections", dimensions: [("server", name)], factory: registry)
    registry.beforeRendering { [weak server] in connections.set(server?.connectionCount ?? 0) }
  }
}
