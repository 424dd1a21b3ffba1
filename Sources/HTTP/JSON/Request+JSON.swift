import HTTPTypes
public import JSON

extension Request {
  /// The body as a `Decodable` value.
  ///
  /// - Throws: 400 `invalid_json` for bytes that are not JSON in UTF-8; 400 `invalid_request` with the name of the member
  ///   for JSON of another shape.
  public func decodeJSON<Value: Decodable>(_ type: Value.Type = Value.self) throws(Problem) -> Value {
    try JSONCoding.decode(type, from: body)
  }

  /// The body as a `JSONReadable` value.
  ///
  /// - Throws: as ``decodeJSON(_:)`` does.
  public func readJSON<Value: JSONReadable>(_ type: Value.Type = Value.self) throws(Problem) -> Value {
    try JSONCoding.read(type, from: body)
  }

  /// Checks that `Content-Type` is `application/json` or any `…/…+json`, with or without parameters.
  ///
  /// - Throws: 415 `unsupported_media_type`.
  public func requireJSON() throws(Problem) {
    guard announcesJSON else {
      throw .unsupportedMediaType("Send the body with Content-Type: application/json.")
    }
  }
}
