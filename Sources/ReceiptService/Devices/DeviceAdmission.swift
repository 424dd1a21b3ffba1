import Postgres
import Subscriptions

/// The secret by which a request was admitted to act for a device.
///
/// Another request can store or replace the secret before the first one takes the customer's lock. So the transaction that
/// changes something of the device compares the stored secret again, under the lock.
struct DeviceAdmission: Sendable {
  let device: String
  let bundleID: String
  /// The hash that was stored when the request was admitted; `nil` for none.
  let storedHash: [UInt8]?

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
