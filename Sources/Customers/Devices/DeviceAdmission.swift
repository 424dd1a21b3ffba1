import AppStore
import Configuration
import Crypto
import Foundation
import HTTP
import Postgres
import Requests
import Subscriptions
import Text

extension SignedDataVerifier {
  /// Verifies a signed app transaction of one app, which a client sent.
  /// - Throws: 422 with the code that fits.
  package func appTransaction(_ jws: String, of app: App) throws(Problem) -> Signed<AppTransaction> {
    do throws(VerificationFailure) {
      let signed = try appTransaction(jws)
      try app.identity.check(signed.payload)
      return signed
    } catch {
      throw Problem(clientProof: error)
    }
  }
}

/// The secret by which a request was admitted to act for a device.
///
/// Another request can store or replace the secret before the first one takes the customer's lock. So the transaction
/// that changes something of the device compares the stored secret again, under the lock.
package struct DeviceAdmission: Sendable, Hashable {
  package let device: String
  package let bundleID: String
  /// The hash that was stored when the request was admitted; `nil` for none.
  let storedHash: [UInt8]?
  /// Whether the stored secret was not read, but taken to be the request's: the transaction reads and compares it.
  package var isAssumed = false

  /// Assumes that the request's secret, or lack of one, is as stored, which saves a query. The transaction reads the
  /// stored one and compares it.
  package static func assumed(_ device: String, in app: App, secret: DeviceSecret?) -> DeviceAdmission {
    DeviceAdmission(device: device, bundleID: app.bundleID, storedHash: secret?.hash, isAssumed: true)
  }

  /// - Parameter secrets: the rows of ``DeviceSecretRows/select(_:bundleID:)``, read under the customer's lock.
  /// - Throws: ``DeviceSecretChanged``
  package func check(_ secrets: Rows?) throws {
    guard try secrets.flatMap(DeviceSecretRows.decode) == storedHash else { throw DeviceSecretChanged() }
  }
}

/// A device's secret was stored, replaced or deleted after a request was admitted. Nothing was written.
package struct DeviceSecretChanged: Error {
  package init() {}

  /// Runs `body` again, with another admission, where it throws this error.
  /// - Throws: 401 `unauthenticated` where the secret changes each time.
  package nonisolated(nonsending) static func retrying<R>(
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
package struct AccountProof: Sendable {
  /// Ids are unique within an environment only.
  package let environment: String
  /// Apple's `appTransactionId`; transactions signed before 2025 may lack it.
  package let appTransactionID: String?
  /// The purchase, if the client sent a transaction.
  package let originalTransactionID: String?

  package init(environment: String, appTransactionID: String?, originalTransactionID: String?) {
    self.environment = environment
    self.appTransactionID = appTransactionID
    self.originalTransactionID = originalTransactionID
  }

  /// SHA-256 of the environment and the `appTransactionId`; `nil` without the id.
  var accountHash: [UInt8]? {
    appTransactionID.map { Array(SHA256.hash(data: Data("\(environment)/\($0)".utf8))) }
  }

  /// - Returns: `nil` for an app transaction without an `appTransactionId`.
  package init?(_ signed: Signed<AppTransaction>) {
    guard let account = signed.payload.appTransactionId?.storable else { return nil }
    environment = signed.payload.receiptType.rawValue.storable
    appTransactionID = account
    originalTransactionID = nil
  }
}
