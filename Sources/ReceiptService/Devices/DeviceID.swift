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
  /// - Throws: 400 `invalid_request` for an id that is empty, longer than 255 bytes, or has control characters: ids
  ///   appear in logs and in support's terminal.
  init(_ name: String, named member: String = "deviceID") throws(Problem) {
    let isASCII = name.utf8.allSatisfy { $0 < 0x80 }
    let name =
      isASCII || name.utf8.count > Self.maximumLength ? name : name.precomposedStringWithCanonicalMapping
    guard (1...Self.maximumLength).contains(name.utf8.count),
      name.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F })
    else {
      throw .invalidRequest(
        "'\(member)' must be 1 to \(Self.maximumLength) bytes without control characters.")
    }
    self.name = name
  }
}
