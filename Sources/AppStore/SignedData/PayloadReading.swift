import JSON

/// The largest nesting depth of a payload, the same as that of Foundation's decoder. Apple's payloads nest four deep.
private let maximumDepth = 512

extension SignedPayload {
  /// Parses a payload whose signature verified.
  init(signedJSON json: [UInt8]) throws(VerificationFailure) {
    do throws(JSONFailure) {
      self = try JSONReader.read(from: json, maximumDepth: maximumDepth)
    } catch {
      throw .init(.malformedPayload, field: error.field, error.problem, isAuthentic: true)
    }
  }
}

extension JSONFailure {
  /// `commitmentInfo.totalBillingPeriods`; nil if the error concerns the whole payload.
  fileprivate var field: String? {
    guard !path.isEmpty else { return nil }
    return path.map { step in
      switch step {
      case .member(let name): name
      case .element(let index): "\(index)"
      }
    }.joined(separator: ".")
  }

  /// The description of the error without the value, which may be a customer's.
  fileprivate var problem: String {
    switch reason {
    case .notUTF8: "the payload is not UTF-8"
    case .malformed: "the payload is not JSON"
    case .tooDeep: "the payload is nested deeper than \(maximumDepth) levels"
    case .missing: "a field that every such payload has is missing"
    case .null: "the field is null"
    case .mismatch(let form): "the field is not of the JSON type for \(form)"
    case .invalid(let expectation): "the value is not one that the field can have: \(expectation)"
    }
  }
}
