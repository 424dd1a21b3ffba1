import Foundation
import HTTPTypes
public import JSON

/// Encodes values as JSON and decodes them. Times are RFC 3339 in UTC, and slashes are not escaped.
///
/// The types of the most frequent requests are `JSONReadable` and `JSONWritable`, which is many times as fast. All
/// other types are `Codable`, which needs less code.
public enum JSONCoding {
  /// The nesting limit of arrays and objects, because decoders are recursive.
  public static let maximumDepth = 32

  private static let encoder = encoder(times: .seconds)
  private static let exactEncoder = encoder(times: .milliseconds)

  private static func encoder(times precision: RFC3339.Precision) -> JSONEncoder {
    let encoder = JSONEncoder()
    // Otherwise the order would differ from one response to the next.
    encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
    encoder.dateEncodingStrategy = .custom { date, encoder in
      var container = encoder.singleValueContainer()
      try container.encode(RFC3339.string(from: date, to: precision))
    }
    return encoder
  }

  private static let decoder: JSONDecoder = {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .custom { decoder in
      let container = try decoder.singleValueContainer()
      guard let date = RFC3339.date(from: try container.decode(String.self)) else {
        throw DecodingError.dataCorruptedError(
          in: container, debugDescription: "a time as in RFC 3339 is expected")
      }
      return date
    }
    return decoder
  }()

  /// The JSON of a value in UTF-8 on one line, with the keys in alphabetical order.
  ///
  /// - Parameter precision: the precision of times.
  /// - Throws: the error of the value's `encode(to:)`.
  public static func encode(
    _ value: some Encodable, times precision: RFC3339.Precision = .seconds
  ) throws -> [UInt8] {
    switch precision {
    case .seconds: Array(try encoder.encode(value))
    case .milliseconds: Array(try exactEncoder.encode(value))
    }
  }

  /// A `JSONReadable` value from JSON in UTF-8.
  ///
  /// - Throws: as ``decode(_:from:)`` does.
  public static func read<Value: JSONReadable>(
    _ type: Value.Type = Value.self, from bytes: [UInt8]
  ) throws(Problem) -> Value {
    do throws(JSONFailure) {
      return try JSONReader.read(from: bytes, maximumDepth: maximumDepth)
    } catch {
      throw Problem(error, in: bytes)
    }
  }

  /// A `Decodable` value from JSON in UTF-8.
  ///
  /// Foundation's decoder accepts trailing commas and does not check the members that the type ignores, so the bytes
  /// are checked first. It would also accept UTF-16.
  ///
  /// - Throws: ``Problem``: 400 `invalid_json` for bytes that are not UTF-8 or not JSON, or nested deeper than
  ///   ``maximumDepth``; 400 `invalid_request` with the name of the member for JSON of another shape.
  public static func decode<Value: Decodable>(
    _ type: Value.Type = Value.self, from bytes: [UInt8]
  ) throws(Problem) -> Value {
    try check(bytes)
    do {
      return try bytes.withUnsafeBytes { buffer in
        guard let base = buffer.baseAddress else { throw Problem.invalidJSON("The body is empty.") }
        // Not copied: the decoder keeps no reference to the bytes.
        let data = Data(
          bytesNoCopy: UnsafeMutableRawPointer(mutating: base), count: buffer.count, deallocator: .none)
        return try decoder.decode(Value.self, from: data)
      }
    } catch let problem as Problem {
      throw problem
    } catch let error as DecodingError {
      throw Problem(error)
    } catch {
      throw .invalidRequest("The body could not be read.")
    }
  }

  /// Checks that the bytes are JSON in UTF-8, nested to at most ``maximumDepth``.
  ///
  /// - Throws: 400 `invalid_json`.
  static func check(_ bytes: [UInt8]) throws(Problem) {
    do throws(JSONFailure) {
      try JSONReader.check(bytes, maximumDepth: maximumDepth)
    } catch {
      throw Problem(error, in: bytes)
    }
  }
}

extension Request {
  /// The body as a `Decodable` value.
  ///
  /// - Throws: 400 `invalid_json` for bytes that are not JSON in UTF-8; 400 `invalid_request` with the name of the
  ///   member for JSON of another shape.
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

/// The media type in `Content-Type` (RFC 9110 §8.3.1).
enum MediaType {
  /// Whether it is `application/json` or any `…/…+json`, with or without parameters.
  static func isJSON(_ value: Span<UInt8>) -> Bool {
    var start = 0
    var end = value.firstIndex(of: UInt8(ascii: ";"), from: 0) ?? value.count
    while start < end, isSpace(value[start]) { start += 1 }
    while start < end, isSpace(value[end - 1]) { end -= 1 }
    let type = value.extracting(start..<end)
    if ASCII.isEqual(type, lowercase: "application/json") { return true }
    return type.count >= 5 && ASCII.isEqual(type.extracting((type.count - 5)...), lowercase: "+json")
  }

  private static func isSpace(_ byte: UInt8) -> Bool { byte == ASCII.space || byte == ASCII.tab }
}

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
