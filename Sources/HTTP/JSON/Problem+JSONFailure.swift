import JSON

extension Problem {
  /// The problem for a body that the reader refused.
  init(_ failure: JSONFailure, in body: [UInt8]) {
    let path = failure.path.isEmpty ? "the body" : Self.path(failure.path)
    switch failure.reason {
    case _ where body.isEmpty: self = .invalidJSON("The body is empty.")
    case .notUTF8: self = .invalidJSON("The body must be UTF-8 without a byte order mark.")
    case .malformed: self = .invalidJSON("The body is not JSON, at byte \(failure.position).")
    case .tooDeep:
      self = .invalidJSON("The body is nested deeper than \(JSONCoding.maximumDepth) levels.")
    case .missing: self = .invalidRequest("'\(path)' is missing.")
    case .null: self = .invalidRequest("'\(path)' must not be null.")
    case .mismatch(let form): self = .invalidRequest("'\(path)' must be \(form.words).")
    case .invalid(let expectation): self = .invalidRequest("'\(path)': \(expectation).")
    }
  }

  /// `events[0].name`, as in JavaScript.
  private static func path(_ steps: [JSONFailure.Step]) -> String {
    steps.reduce(into: "") { path, step in
      switch step {
      case .member(let name): path += path.isEmpty ? name : ".\(name)"
      case .element(let index): path += "[\(index)]"
      }
    }
  }
}

extension JSONForm {
  fileprivate var words: String {
    switch self {
    case .string: "a string"
    case .boolean: "true or false"
    case .integer: "a whole number"
    case .array: "an array"
    case .object: "an object"
    }
  }
}
