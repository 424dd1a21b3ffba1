import Foundation
import HTTP

/// A valid device id, chosen by the app.
struct DeviceID: Sendable {
  let name: String

  /// The most bytes: the tables of live apps have `VARCHAR(255)`.
  static let maximumLength = 255

  /// Normalizes the id to Unicode form C (UAX #15). Swift treats canonically equivalent strings as equal, PostgreSQL
  /// compares bytes; without it one device could be two in the database.
  ///
  /// - Parameter member: the name of the value in the request, for the error.
  /// - Throws: 400 `invalid_request` for an id that is empty, longer than 255 bytes, or has control characters, or white space
  ///   at its ends, because support reads ids in a terminal and copies them.
  init(_ name: String, named member: String = "deviceID") throws(Problem) {
    let name = Self.normalized(name)
    guard (1...Self.maximumLength).contains(name.utf8.count), !name.hasControlCharacters,
      !name.hasOuterWhiteSpace
    else {
      throw .invalidRequest(
        "'\(member)' must be 1 to \(Self.maximumLength) bytes without control characters, and must not begin or end "
          + "with white space.")
    }
    self.name = name
  }

  /// The form of an id in the database. Rows from before receiptd may have ids that new devices may not have.
  static func normalized(_ name: String) -> String {
    let isASCII = name.utf8.allSatisfy { $0 < 0x80 }
    return isASCII || name.utf8.count > maximumLength ? name : name.precomposedStringWithCanonicalMapping
  }
}
