public import HTTPTypes

/// Responds to a request, or throws; a ``Problem`` becomes its response.
public typealias Responder = @Sendable (Request) async throws -> Response

/// Wraps a responder. It may refuse a request, and change what the responder returns or throws. It is called once for
/// each route, when the router is built.
public typealias Middleware = @Sendable (_ next: @escaping Responder) -> Responder

/// Finds the handler for a method and a path.
///
/// A pattern such as `/api/v1/profiles/{userID}/premium` matches segment by segment. The path is split at its slashes
/// and decoded afterwards, so that `%2F` is part of a value and never a separator. A literal segment takes precedence
/// over a parameter. Unless they have routes of their own, `HEAD` uses the route for `GET`, and `OPTIONS` responds with
/// 204 and `Allow`.
public struct Router: Sendable {
  /// The routes in the order in which they were added.
  public private(set) var routes: [Route] = []
  /// `Cache-Control` of every response without one, including refusals and unknown paths.
  let cacheControl: String?
  var nodes: [Node] = [Node()]
  /// The middleware of the open groups, the outermost first.
  private var middleware: [Middleware] = []

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
  /// - Parameter cacheControl: the `Cache-Control` of responses without one; nil for no such field. It also protects
  ///   routes that are added later.
  public init(cacheControl: String? = nil) { self.cacheControl = cacheControl }

  /// Adds a route whose handler runs in a task of its own.
  ///
  /// The handler runs on the connection's event loop, so it must not block. The task is cancelled when the connection
  /// is lost or the handler's deadline has passed. A client that closes only its sending half still gets its response.
  ///
  /// - Parameter maximumBodyLength: in bytes; a longer body gets 413.
  /// - Precondition: the pattern is well-formed and has no route for this method yet.
  public mutating func on(
    _ method: HTTPRequest.Method, _ pattern: String, maximumBodyLength: Int = 65_536,
    _ handler: @escaping Responder
  ) {
    let wrapped = middleware.reversed().reduce(handler) { next, wrap in wrap(next) }
    add(method, pattern, maximumBodyLength, .asynchronous(wrapped))
  }

  /// Adds routes that share middleware, inside that of an outer group. The first middleware is the first to see a
  /// request, and the last to see its response or error.
  public mutating func group(_ middleware: [Middleware], routes: (inout Router) -> Void) {
    let outer = self.middleware
    self.middleware += middleware
    routes(&self)
    self.middleware = outer
  }

  /// Adds a route whose handler runs on the event loop without a task. It must return quickly, because the other
  /// connections of the loop wait for it.
  ///
  /// - Precondition: as for ``on(_:_:maximumBodyLength:_:)``; and no group with middleware is open, which needs a task.
  public mutating func onImmediate(
    _ method: HTTPRequest.Method, _ pattern: String, maximumBodyLength: Int = 65_536,
    _ handler: @escaping @Sendable (Request) throws -> Response
  ) {
    precondition(middleware.isEmpty, "\(method) \(pattern) is immediate and cannot have middleware.")
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

extension Router {
  /// The result of routing a request.
  enum Match {
    case route(Endpoint, PathParameters)
    /// `OPTIONS` for a path that has no route for it.
    case options(allow: String)
    /// No route matches.
    indirect case problem(Problem)
  }

  /// Finds the route for a method and a path.
  ///
  /// - Parameter path: as sent, with a slash at its start, or `*`; empty for the root.
  func match(_ method: HTTPRequest.Method, _ path: Span<UInt8>) -> Match {
    guard path.count != 1 || path[0] != UInt8(ascii: "*") else {
      return .options(allow: Self.allow(routes.map(\.method).unique))
    }
    var parameters: [String] = []
    let node: Node
    switch find(path, &parameters) {
    case .found(let index): node = nodes[index]
    case .missing: return .problem(.notFound())
    case .malformed:
      return .problem(
        .invalidRequest("The path has a malformed percent-encoding, a control character, or a dot segment."))
    }
    if let endpoint = node.endpoint(for: method) {
      var named = PathParameters()
      if parameters.isEmpty { return .route(endpoint, named) }
      for (name, value) in zip(endpoint.parameterNames, parameters) {
        named.append(name: name, value: value)
      }
      return .route(endpoint, named)
    }
    return method == .options
      ? .options(allow: node.allow) : .problem(.methodNotAllowed(allow: node.allow))
  }

  private enum Finding {
    case found(Int)
    case missing
    case malformed
  }

  private func find(_ bytes: Span<UInt8>, _ parameters: inout [String]) -> Finding {
    guard bytes.count > 1 else { return nodes[0].endpoints.isEmpty ? .missing : .found(0) }
    var node = 0
    var start = 1
    var isMissing = false
    // Every segment is checked, even after it is clear that no route matches: a malformed path gets 400, not 404.
    while start <= bytes.count {
      let end =
        start < bytes.count ? bytes.firstIndex(of: UInt8(ascii: "/"), from: start) ?? bytes.count : start
      let segment = bytes.extracting(start..<end)
      if !isMissing, let literal = nodes[node].child(named: segment) {
        node = literal
      } else {
        guard let text = PercentDecoding.decode(segment), text != ".", text != ".." else {
          return .malformed
        }
        if let literal = nodes[node].child(named: text.utf8.span) {
          node = literal
        } else if let child = nodes[node].parameter, !text.isEmpty {
          parameters.append(text)
          node = child
        } else {
          isMissing = true
        }
      }
      start = end + 1
    }
    return isMissing || nodes[node].endpoints.isEmpty ? .missing : .found(node)
  }
}

extension Router.Node {
  func child(named name: Span<UInt8>) -> Int? {
    for literal in literals where literal.name.count == name.count {
      if name.indices.allSatisfy({ name[$0] == literal.name[$0] }) { return literal.node }
    }
    return nil
  }

  /// The route for the method; for `HEAD` that for `GET` (RFC 9110 §9.3.2).
  func endpoint(for method: HTTPRequest.Method) -> Router.Endpoint? {
    for endpoint in endpoints where endpoint.route.method == method { return endpoint }
    return method == .head ? endpoint(for: .get) : nil
  }
}

extension [HTTPRequest.Method] {
  fileprivate var unique: [HTTPRequest.Method] {
    reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
  }
}

extension Router.Match {
  /// The route, if there is one.
  var route: Route? {
    if case .route(let endpoint, _) = self { endpoint.route } else { nil }
  }

  /// The pattern of the route, if there is one.
  var pattern: String? { route?.pattern }
}

/// A route of a ``Router``: a method, a path pattern and a handler.
public struct Route: Sendable {
  /// The index in ``Router/routes``, for tables with one entry per route.
  public let index: Int
  /// The method.
  public let method: HTTPRequest.Method
  /// The pattern, such as `/api/v1/profiles/{userID}/premium`: a bounded label for logs and metrics.
  public let pattern: String
  /// The longest body; a longer one gets 413, and the handler does not run.
  public let maximumBodyLength: Int
  let handler: Handler

  /// The handler of a route.
  enum Handler: Sendable {
    /// Runs on the event loop without a task.
    case immediate(@Sendable (Request) throws -> Response)
    /// Runs in a task, which is cancelled when the connection is lost or the deadline has passed.
    case asynchronous(Responder)
  }
}

/// A path with parameters: `/api/v1/devices/{deviceID}/children`.
struct RoutePattern: Hashable {
  enum Segment: Hashable {
    case literal([UInt8])
    case parameter(String)
  }

  let segments: [Segment]

  /// Parses a pattern. Patterns are constants, so a malformed one stops the program when the router is built.
  init(_ pattern: String) {
    precondition(
      pattern.utf8.first == UInt8(ascii: "/"), "A route pattern must begin with a slash: \(pattern)")
    guard pattern != "/" else {
      segments = []
      return
    }
    segments = pattern.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
      .map { segment in
        precondition(!segment.isEmpty, "A route pattern must not have an empty segment: \(pattern)")
        guard segment.first == UInt8(ascii: "{"), segment.last == UInt8(ascii: "}") else {
          precondition(
            segment.allSatisfy { ASCII.isTargetCharacter($0) && $0 != UInt8(ascii: "%") },
            "A route pattern must not be percent-encoded: \(pattern)")
          return .literal(Array(segment))
        }
        precondition(segment.count > 2, "A route parameter needs a name: \(pattern)")
        return .parameter(String(decoding: segment.dropFirst().dropLast(), as: UTF8.self))
      }
  }

  var parameterNames: [String] {
    segments.compactMap { segment in
      if case .parameter(let name) = segment { name } else { nil }
    }
  }
}
