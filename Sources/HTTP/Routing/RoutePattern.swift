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
