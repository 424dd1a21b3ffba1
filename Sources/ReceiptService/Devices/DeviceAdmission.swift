import AppStore
import Foundation
import HTTP
import Postgres
import Requests
import Subscriptions
import Text

/// The secret by which a request was admitted to act for a device.
///
/// Another request can store or replace the secret before the first one takes the customer's lock. So the transaction that
/// changes something of the device compares the stored secret again, under the lock.
struct DeviceAdmission: Sendable, Hashable {
  let device: String
  let bundleID: String
  /// The hash that was stored when the request was admitted; `nil` for none.
  let storedHash: [UInt8]?
  /// Whether the stored secret was not read, but taken to be the request's: the transaction reads and compares it.
  var isAssumed = false

  /// An admission of a request whose secret, or lack of one, is as stored: that is so of nearly all requests, and saves a
  /// statement on its own.
  static func assumed(_ device: String, in app: App, secret: DeviceSecret?) -> DeviceAdmission {
    DeviceAdmission(device: device, bundleID: app.bundleID, storedHash: secret?.hash, isAssumed: true)
  }

  /// - Parameter secrets: the rows of ``DeviceSecretRows/select(_:bundleID:)``, read under the customer's lock.
  /// - Throws: ``DeviceSecretChanged``
  func check(_ secrets: Rows?) throws {
    guard try secrets.flatMap(DeviceSecretRows.decode) == storedHash else { throw DeviceSecretChanged() }
  }
}

/// A device's secret was stored, replaced or deleted after a request was admitted. Nothing was written.
struct DeviceSecretChanged: Error {
  /// Runs `body` again, with another admission, where it throws this error.
  /// - Throws: 401 `unauthenticated` where the secret changes each time.
  nonisolated(nonsending) static func retrying<R>(
    _ body: nonisolated(nonsending) () async throws -> R
  ) async throws -> R {
    for _ in 1...3 {
      do {
        return try await body()
      } catch is DeviceSecretChanged {}
    }
    throw ServiceError.deviceSecretNeeded
  }
}

/// Data signed by the App Store that proves which Apple Account a device has.
///
/// Only data that the client sent counts. A transaction that the server looked up by a bare id proves nothing about the
/// caller.
struct AccountProof: Sendable {
  /// Ids are unique within an environment only.
  let environment: String
  /// Apple's `appTransactionId`; transactions signed before 2025 may lack it.
  let appTransactionID: String?
  /// The purchase, if the client sent a transaction.
  let originalTransactionID: String?

  /// - Returns: `nil` for an app transaction without an `appTransactionId`.
  init?(_ signed: Signed<AppTransaction>) {
    guard let account = signed.payload.appTransactionId?.storable else { return nil }
    environment = signed.payload.receiptType.rawValue.storable
    appTransactionID = account
    originalTransactionID = nil
  }

  /// - Parameter purchase: from a signed transaction that the client sent.
  init?(_ purchase: ProvenPurchase) {
    guard let fact = purchase.transactions.first?.fact else { return nil }
    environment = fact.environment.rawValue
    appTransactionID = fact.appTransactionID
    originalTransactionID = fact.originalTransactionID
  }
}

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
