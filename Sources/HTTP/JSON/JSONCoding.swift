import FoundationEssentials
public import JSON

/// How values become JSON and come from it: times are RFC 3339 in UTC, slashes are not escaped.
///
/// Two ways, one for each type: what every request carries is `JSONWritable` and `JSONReadable`, which is many times
/// as fast; what is asked for now and then is `Codable`, which is less to write.
public enum JSONCoding {
  /// How deep arrays and objects may nest. Decoders recurse; an attacker should not choose how far.
  public static let maximumDepth = 32

  private static let encoder = encoder(times: .seconds)
  private static let exactEncoder = encoder(times: .milliseconds)

  private static func encoder(times precision: RFC3339.Precision) -> JSONEncoder {
    let encoder = JSONEncoder()
    // Sorted, because otherwise the order differs from one answer to the next, and people read them.
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

  /// The JSON of a value, in UTF-8, on one line, keys in alphabetical order.
  ///
  /// - Parameter precision: how exact times are.
  /// - Throws: what the value's `encode(to:)` throws, or `EncodingError`.
  public static func encode(
    _ value: some Encodable, times precision: RFC3339.Precision = .seconds
  ) throws -> [UInt8] {
    switch precision {
    case .seconds: Array(try encoder.encode(value))
    case .milliseconds: Array(try exactEncoder.encode(value))
    }
  }

  /// A value from JSON in UTF-8, in one pass: for what is read many times a second.
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

  /// A value from JSON in UTF-8.
  ///
  /// - Throws: ``Problem``: 400 `invalid_json` for bytes that are not UTF-8 or not JSON, or nested deeper
  ///   than ``maximumDepth``; 400 `invalid_request`, naming the member, for JSON of another shape.
  public static func decode<Value: Decodable>(
    _ type: Value.Type = Value.self, from bytes: [UInt8]
  ) throws(Problem) -> Value {
    try JSONShape.check(bytes)
    do {
      return try bytes.withUnsafeBytes { buffer in
        guard let base = buffer.baseAddress else { throw Problem.invalidJSON("The body is empty.") }
        // Not copied: the decoder has let go of the bytes when it returns.
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
}
