import FoundationEssentials
import Identifiers
import JSON

// The forms that Apple's dates and ids have on the wire.
extension JSONReader {
  /// A date as whole milliseconds since 1970, within the years 0001 to 9999.
  mutating func milliseconds() throws(JSONFailure) -> Date {
    let start = position
    guard let date = Date(millisecondsSince1970: try integer()) else {
      throw JSONFailure(
        .unfit("a date of the years 0001 to 9999 in milliseconds is expected"), at: start)
    }
    return date
  }

  /// Such a date, or nil for `null`.
  mutating func millisecondsOrNull() throws(JSONFailure) -> Date? {
    try takeNull() ? nil : milliseconds()
  }

  /// A UUID in its 36 characters, of either case.
  mutating func uuid() throws(JSONFailure) -> UUID {
    let start = position
    guard let uuid = UUID(rfc9562: try string()) else {
      throw JSONFailure(.unfit("a UUID is expected"), at: start)
    }
    return uuid
  }

  /// A UUID, or nil for `null`.
  mutating func uuidOrNull() throws(JSONFailure) -> UUID? {
    try takeNull() ? nil : uuid()
  }
}
