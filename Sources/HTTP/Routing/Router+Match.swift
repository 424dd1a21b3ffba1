import HTTPTypes

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
