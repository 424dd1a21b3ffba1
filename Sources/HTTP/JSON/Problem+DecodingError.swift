extension Problem {
  /// The problem for a body that the decoder refused. The decoder's own text is not sent to the client.
  init(_ error: DecodingError) {
    switch error {
    case .keyNotFound(let key, let context):
      self = .invalidRequest("'\(Self.path(context.codingPath + [key]))' is missing.")
    case .valueNotFound(_, let context):
      self = .invalidRequest("'\(Self.path(context.codingPath))' must not be null.")
    case .typeMismatch(let type, let context):
      self = .invalidRequest("'\(Self.path(context.codingPath))' must be \(Self.form(of: type)).")
    case .dataCorrupted(let context) where context.codingPath.isEmpty:
      self = .invalidJSON("The body is not JSON.")
    case .dataCorrupted(let context):
      self = .invalidRequest("'\(Self.path(context.codingPath))': \(context.debugDescription).")
    @unknown default:
      self = .invalidRequest("The body has an unexpected shape.")
    }
  }

  /// `events[0].name`, as in JavaScript.
  private static func path(_ keys: [any CodingKey]) -> String {
    guard !keys.isEmpty else { return "the body" }
    return keys.reduce(into: "") { path, key in
      if let index = key.intValue {
        path += "[\(index)]"
      } else {
        path += path.isEmpty ? key.stringValue : ".\(key.stringValue)"
      }
    }
  }

  private static func form(of type: Any.Type) -> String {
    switch type {
    case is String.Type: "a string"
    case is Bool.Type: "true or false"
    case is any BinaryInteger.Type: "a whole number"
    case is any BinaryFloatingPoint.Type: "a number"
    case is [Any].Type: "an array"
    case is [String: Any].Type: "an object"
    default: "of another type"
    }
  }
}
