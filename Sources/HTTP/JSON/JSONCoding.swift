import Foundation
public import JSON

/// Encodes values as JSON and decodes them. Times are RFC 3339 in UTC, and slashes are not escaped.
///
/// The types of the most frequent requests are `JSONReadable` and `JSONWritable`, which is many times as fast. All other
/// types are `Codable`, which needs less code.
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
  /// Foundation's decoder accepts trailing commas and does not check the members that the type ignores, so the bytes are
  /// checked first. It would also accept UTF-16.
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
