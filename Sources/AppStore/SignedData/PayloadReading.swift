import JSON

/// How deep a payload may nest. What Apple signs nests four deep; Foundation's decoder goes as far as this.
private let maximumDepth = 512

extension SignedPayload {
  /// Reads a payload whose signature is good.
  init(signedJSON json: [UInt8]) throws(VerificationFailure) {
    do throws(JSONFailure) {
      self = try JSONReader.read(from: json, maximumDepth: maximumDepth)
    } catch {
      throw .init(.malformedPayload, field: error.field, error.problem, isAuthentic: true)
    }
  }
}

extension JSONFailure {
  /// `advancedCommerceInfo.items.0.sku`; nil where it is the whole that is wrong.
  fileprivate var field: String? {
    guard !path.isEmpty else { return nil }
    return path.map { step in
      switch step {
      case .member(let name): name
      case .element(let index): "\(index)"
      }
    }.joined(separator: ".")
  }

  /// Without the value: it may be a customer's.
  fileprivate var problem: String {
    switch reason {
    case .notUTF8: "the payload is not UTF-8"
    case .malformed: "the payload is not JSON"
    case .tooDeep: "the payload is nested deeper than \(maximumDepth) levels"
    case .missing: "a field that every such payload has is missing"
    case .null: "the field is null"
    case .mismatch(let form): "the field is not of the JSON type for \(form)"
    case .unfit(let expectation): "the value is not one that the field can have: \(expectation)"
    }
  }
}
