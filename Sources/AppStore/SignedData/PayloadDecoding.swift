import FoundationEssentials

extension SignedPayload {
  /// Decodes a payload whose signature is good.
  init(signedJSON json: [UInt8]) throws(VerificationFailure) {
    do {
      self = try JSONDecoder().decode(Self.self, from: Data(json))
    } catch {
      let (field, problem) = Self.problem(in: error)
      throw .init(.malformedPayload, field: field, problem, isAuthentic: true)
    }
  }

  // The decoder's own descriptions quote values, and a value may be a customer's.
  private static func problem(in error: any Error) -> (field: String?, problem: String) {
    func path(_ keys: [any CodingKey]) -> String? {
      keys.isEmpty ? nil : keys.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
    }
    switch error as? DecodingError {
    case .keyNotFound(let key, let context):
      return (path(context.codingPath + [key]), "a field that every such payload has is missing")
    case .valueNotFound(_, let context):
      return (path(context.codingPath), "the field is null")
    case .typeMismatch(let type, let context):
      return (path(context.codingPath), "the field is not of the JSON type for \(type)")
    case .dataCorrupted(let context):
      return (path(context.codingPath), "the value is not one that the field can have, or not JSON")
    default:
      return (nil, "the payload cannot be decoded")
    }
  }
}
