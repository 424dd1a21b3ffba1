import Actions
import Foundation
import HTTP
import Identifiers
import Postgres
import Subscriptions
import Text

extension Customer {
  /// Decodes the columns `user_id` and `device_id`; `nil` if both are NULL.
  package init?(_ row: Row) throws {
    if let user = try row.decode("user_id", as: UUID?.self) {
      self = .user(user)
    } else if let device = try row.decode("device_id", as: String?.self) {
      self = .device(device)
    } else {
      return nil
    }
  }

  /// The customer of an app with this id; `nil` if the id is not valid.
  package init?(id: String, of app: App) {
    switch app.customer {
    case .user:
      guard let user = UUID(rfc9562: id) else { return nil }
      self = .user(user)
    case .device: self = .device(id)
    }
  }
}

/// A valid device id, chosen by the app.
package struct DeviceID: Sendable {
  package let name: String

  /// The most bytes: the tables of live apps have `VARCHAR(255)`.
  package static let maximumLength = 255

  /// Normalizes the id to Unicode form C (UAX #15). Swift treats canonically equivalent strings as equal, PostgreSQL
  /// compares bytes; without it one device could be two in the database.
  ///
  /// - Parameter member: the name of the value in the request, for the error.
  /// - Throws: 400 `invalid_request` for an id that is empty, longer than 255 bytes, or has control characters, or
  ///   white space at its ends, because support reads ids in a terminal and copies them; for characters newer than
  ///   Unicode 15; and for the id of an erased device.
  package init(_ name: String, named member: String = "deviceID") throws(Problem) {
    let name = Self.normalized(name)
    guard (1...Self.maximumLength).contains(name.utf8.count), !name.hasControlCharacters,
      !name.hasOuterWhiteSpace
    else {
      throw .invalidRequest(
        "'\(member)' must be 1 to \(Self.maximumLength) bytes without control characters, and must not begin or end "
          + "with white space.")
    }
    guard name.unicodeScalars.allSatisfy(Self.isSettled) else {
      throw .invalidRequest("'\(member)' must have no characters that are newer than Unicode 15.")
    }
    // A path cannot have them as a segment (RFC 3986, section 5.2.4), so the device could not ask for its entitlements.
    guard name != ".", name != ".." else {
      throw .invalidRequest("'\(member)' must not be '.' or '..'.")
    }
    guard !Self.isErased(name) else {
      throw .invalidRequest("'\(member)' has the form of the id that replaces an erased device's.")
    }
    self.name = name
  }

  /// Whether Foundation's tables of normalization know the character. Those of Swift's own comparison are newer: two
  /// ids with a character that they alone know can be equal in Swift and two rows in the database. The normalization of
  /// a text never changes once its characters are assigned (Unicode's stability policy). A character that Swift does not
  /// know either equals itself alone.
  private static func isSettled(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value < 0x80 || scalar.properties.age.map { $0.major <= 15 } ?? true
  }

  /// The begin of the id that replaces an erased device's; a UUID follows.
  package static let erasedPrefix = "erased-"

  /// The form of such an id in SQL, as a regular expression. No other device has an id of this form.
  package static let erasedPattern: StaticString = "'^erased-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"

  private static func isErased(_ name: String) -> Bool {
    name.hasPrefix(erasedPrefix) && UUID(rfc9562: String(name.dropFirst(erasedPrefix.count))) != nil
  }

  /// The form of an id in the database. Rows from before receiptd may have ids that new devices may not have.
  package static func normalized(_ name: String) -> String {
    let isASCII = name.utf8.allSatisfy { $0 < 0x80 }
    return isASCII || name.utf8.count > maximumLength ? name : name.precomposedStringWithCanonicalMapping
  }
}

extension App {
  /// The customer of this app with this id: a user's UUID or a device id.
  package func customer(named text: String) throws(SupportRefusal) -> Customer {
    switch customer {
    case .user:
      guard let id = UUID(rfc9562: text) else {
        throw .invalid("Customers of \(bundleID) are users, and '\(text)' is not a user's UUID.")
      }
      return .user(id)
    case .device:
      guard let device = try? DeviceID(text) else {
        throw .invalid(
          "Customers of \(bundleID) are devices, named by 1 to \(DeviceID.maximumLength) bytes without control characters, "
            + "without white space at the ends, and not by the id that replaces an erased device's."
        )
      }
      return .device(device.name)
    }
  }
}
