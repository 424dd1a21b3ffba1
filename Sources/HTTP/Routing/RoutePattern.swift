/// A path with holes: `/api/v1/devices/{deviceID}/children`.
struct RoutePattern: Hashable {
  enum Segment: Hashable {
    case literal([UInt8])
    case parameter(String)
  }

  let segments: [Segment]

  /// Patterns are constants of the program, so a malformed one is a mistake of its author's and stops
  /// the program when its routes are listed, before it serves anything.
  init(_ pattern: String) {
    precondition(pattern.utf8.first == UInt8(ascii: "/"), "A route's pattern begins with a slash: \(pattern)")
    guard pattern != "/" else {
      segments = []
      return
    }
    segments = pattern.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
      .map { segment in
        precondition(!segment.isEmpty, "A route's pattern has no empty segment: \(pattern)")
        guard segment.first == UInt8(ascii: "{"), segment.last == UInt8(ascii: "}") else {
          precondition(
            segment.allSatisfy { ASCII.isTargetCharacter($0) && $0 != UInt8(ascii: "%") },
            "A route's pattern is written plain: \(pattern)")
          return .literal(Array(segment))
        }
        precondition(segment.count > 2, "A route's parameter has a name: \(pattern)")
        return .parameter(String(decoding: segment.dropFirst().dropLast(), as: UTF8.self))
      }
  }

  var parameterNames: [String] {
    segments.compactMap { segment in
      if case .parameter(let name) = segment { name } else { nil }
    }
  }
}
