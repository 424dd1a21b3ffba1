public import HTTPTypes

/// Finds the handler for a method and a path.
///
/// A pattern such as `/api/v1/profiles/{userID}/premium` matches segment by segment. The path is split at
/// its slashes first and decoded after, so that `%2F` is part of a value and never a border. A literal
/// segment wins over a parameter. `HEAD` is answered by the route for `GET`, `OPTIONS` by a 204 with
/// `Allow`, unless they have routes of their own.
public struct Router: Sendable {
  /// The routes in the order in which they were added.
  public private(set) var routes: [Route] = []
  /// `Cache-Control` of every answer that does not name its own, refused requests and unknown paths included.
  let cacheControl: String?
  var nodes: [Node] = [Node()]

  /// A place in the tree of segments.
  struct Node: Sendable {
    var literals: [(name: [UInt8], node: Int)] = []
    var parameter: Int?
    var endpoints: [Endpoint] = []
    /// The value of `Allow`: the methods with a route, and those that are answered for them.
    var allow = ""
  }

  /// A route where it is found; an object, because it is handed on for each request.
  final class Endpoint: Sendable {
    let route: Route
    let parameterNames: [String]

    init(route: Route, parameterNames: [String]) {
      self.route = route
      self.parameterNames = parameterNames
    }
  }

  /// A router without routes, which answers 404 to everything.
  ///
  /// - Parameter cacheControl: the `Cache-Control` of answers that do not name their own; nil for no such field. A
  ///   default for all protects a route that is added later, too.
  public init(cacheControl: String? = nil) { self.cacheControl = cacheControl }

  /// Adds a route whose handler runs in a task of its own.
  ///
  /// The handler's code runs on the connection's event loop, what it awaits runs where it likes: it may compute
  /// for a moment, but must not block. The task is cancelled when the connection is lost or the handler's
  /// deadline has passed; a client that only ends its sending half is still answered.
  ///
  /// - Parameter maximumBodyLength: in bytes; a longer body is answered 413.
  /// - Precondition: the pattern is well-formed and has no route for this method yet.
  public mutating func on(
    _ method: HTTPRequest.Method, _ pattern: String, maximumBodyLength: Int = 65_536,
    _ handler: @escaping @Sendable (Request) async throws -> Response
  ) {
    add(method, pattern, maximumBodyLength, .asynchronous(handler))
  }

  /// Adds a route that is answered on the event loop itself: for what neither waits nor computes long,
  /// since every connection of that loop waits meanwhile.
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
