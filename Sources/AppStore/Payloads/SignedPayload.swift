import Foundation
import Identifiers
import JSON

/// The decoded payload of a JWS that Apple signs.
///
/// The properties have Apple's field names. Only identifying fields are required; the others may be missing. Unknown
/// fields stay in the raw bytes that `Signed` keeps.
///
/// `SignedDataVerifier` reads a payload as `JSONReadable`. The simulator writes payloads as `Encodable`, and tests compare
/// the reader with Foundation's `Decodable`.
public protocol SignedPayload: Codable, JSONReadable, Hashable, Sendable {
  /// The time of signing, at which the certificates must have been valid.
  var signedAt: Date { get }
  /// Whether StoreKit testing in Xcode signed it, by its environment.
  var isOfXcode: Bool { get }

  /// Replaces the ids of Xcode, which begin again at 0 in each run, by those under which its data is kept.
  mutating func takeXcodeIDs()
}

extension SignedPayload {
  /// False: Xcode signs no such payload, or its type says otherwise.
  public var isOfXcode: Bool { false }
  /// Nothing: the payload has no ids, or they are completed elsewhere.
  public mutating func takeXcodeIDs() {}
}

extension UUID {
  /// The token of StoreKit if the app set none: all zeros.
  static let absentAppAccountToken = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
}

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

// Readers for the wire forms of Apple's dates and ids.
extension JSONReader {
  /// Reads a date as whole milliseconds since 1970, within the years 0001 to 9999.
  mutating func milliseconds() throws(JSONFailure) -> Date {
    let start = position
    guard let date = Date(millisecondsSince1970: try integer()) else {
      throw JSONFailure(
        .invalid("a date of the years 0001 to 9999 in milliseconds is expected"), at: start)
    }
    return date
  }

  /// Reads such a date, or nil for `null`.
  mutating func millisecondsOrNull() throws(JSONFailure) -> Date? {
    try takeNull() ? nil : milliseconds()
  }

  /// Reads a UUID of 36 characters in either case.
  mutating func uuid() throws(JSONFailure) -> UUID {
    let start = position
    guard let uuid = UUID(rfc9562: try string()) else {
      throw JSONFailure(.invalid("a UUID is expected"), at: start)
    }
    return uuid
  }

  /// Reads a UUID, or nil for `null`.
  mutating func uuidOrNull() throws(JSONFailure) -> UUID? {
    try takeNull() ? nil : uuid()
  }
}
