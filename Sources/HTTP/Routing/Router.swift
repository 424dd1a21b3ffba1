public import HTTPTypes

/// Finds the handler for a method and a path.
///
/// A pattern such as `/api/v1/profiles/{userID}/premium` matches segment by segment. The path is split at its slashes and
/// decoded afterwards, so that `%2F` is part of a value and never a separator. A literal segment takes precedence over a
/// parameter. Unless they have routes of their own, `HEAD` uses the route for `GET`, and `OPTIONS` responds with 204 and
/// `Allow`.
public struct Router: Sendable {
  /// The routes in the order in which they were added.
  public private(set) var routes: [Route] = []
  /// `Cache-Control` of every response without one, including refusals and unknown paths.
  let cacheControl: String?
  var nodes: [Node] = [Node()]

  /// A node in the tree of segments.
  struct Node: Sendable {
    var literals: [(name: [UInt8], node: Int)] = []
    var parameter: Int?
    var endpoints: [Endpoint] = []
    /// The value of `Allow`: the methods with a route, `HEAD` and `OPTIONS`.
    var allow = ""
  }

  /// A route in the tree. A class, so that passing it copies one reference.
  final class Endpoint: Sendable {
    let route: Route
    let parameterNames: [String]

    init(route: Route, parameterNames: [String]) {
      self.route = route
      self.parameterNames = parameterNames
    }
  }

  /// A router without routes, which responds to every request with 404.
  ///
  /// - Parameter cacheControl: the `Cache-Control` of responses without one; nil for no such field. It also protects routes
  ///   that are added later.
  public init(cacheControl: String? = nil) { self.cacheControl = cacheControl }

  /// Adds a route whose handler runs in a task of its own.
  ///
  /// The handler runs on the connection's event loop, so it must not block. The task is cancelled when the connection is
  /// lost or the handler's deadline has passed. A client that closes only its sending half still gets its response.
  ///
  /// - Parameter maximumBodyLength: in bytes; a longer body gets 413.
  /// - Precondition: the pattern is well-formed and has no route for this method yet.
  public mutating func on(
    _ method: HTTPRequest.Method, _ pattern: String, maximumBodyLength: Int = 65_536,
    _ handler: @escaping @Sendable (Request) async throws -> Response
  ) {
    add(method, pattern, maximumBodyLength, .asynchronous(handler))
  }

  /// Adds a route whose handler runs on the event loop without a task. It must return quickly, because the other
  /// connections of the loop wait for it.
  ///
  /// - Precondition: the pattern is well-formed and has no route for this method yet.
  public mutating func onImmediate(
    _ method: HTTPRequest.Method, _ pattern: String, maximumBodyLength: Int = 65_536,
    _ handler: @escaping @Sendable (Request) throws -> Response
  ) {
    add(method, pattern, maximumBodyLength, .immediate(handler))
  }

  private mutating func add(
    _ method: HTTPRequest.Method, _ pattern: String, _ maximumBodyLength: Int, _ handler: Route.Handler
  ) {
    let parsed = RoutePattern(pattern)
    let node = parsed.segments.reduce(0) { node, segment in child(of: node, segment) }
    precondition(
      !nodes[node].endpoints.contains { $0.route.method == method },
      "\(method) \(pattern) has two routes, of which one would never be reached.")
    let route = Route(
      index: routes.count, method: method, pattern: pattern, maximumBodyLength: maximumBodyLength,
      handler: handler)
    routes.append(route)
    nodes[node].endpoints.append(Endpoint(route: route, parameterNames: parsed.parameterNames))
    nodes[node].allow = Self.allow(nodes[node].endpoints.map(\.route.method))
  }

  private mutating func child(of node: Int, _ segment: RoutePattern.Segment) -> Int {
    switch segment {
    case .literal(let name):
      if let existing = nodes[node].literals.first(where: { $0.name == name }) { return existing.node }
      nodes[node].literals.append((name, nodes.count))
    case .parameter:
      if let existing = nodes[node].parameter { return existing }
      nodes[node].parameter = nodes.count
    }
    nodes.append(Node())
    return nodes.count - 1
  }

  static func allow(_ methods: [HTTPRequest.Method]) -> String {
    var names = methods.map(\.rawValue)
    if names.contains("GET"), !names.contains("HEAD") { names.append("HEAD") }
    if !names.contains("OPTIONS") { names.append("OPTIONS") }
    return names.joined(separator: ", ")
  }
}
