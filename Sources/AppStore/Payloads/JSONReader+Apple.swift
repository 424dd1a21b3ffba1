import Foundation
import Identifiers
import JSON

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
