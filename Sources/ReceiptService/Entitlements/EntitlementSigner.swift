import Foundation
import HTTP
import HTTPTypes
import JSON
import Subscriptions
import Synchronization

/// Signs entitlement tokens with the current key and publishes the keys that verify them.
///
/// Every response uses it, so it reads keys from memory and never waits. Without a key, or if signing fails, the response
/// has no token.
final class EntitlementSigner: Sendable {
  private let ring: Mutex<EntitlementKeyRing?>

  init(_ ring: EntitlementKeyRing? = nil) { self.ring = Mutex(ring) }

  /// Replaces the keys.
  func adopt(_ new: EntitlementKeyRing) { ring.withLock { $0 = new } }

  private var keys: EntitlementKeyRing? { ring.withLock { $0 } }

  /// The id of the key that signs; `nil` without keys.
  func kid(at instant: Date) -> String? { keys?.signing(at: instant)?.kid }

  /// A compact JWT of a customer's entitlements; `nil` without keys.
  func token(
    for entitlements: Entitlements, of app: App, to customer: Customer, at instant: Date
  ) -> String? {
    guard let key = keys?.signing(at: instant) else { return nil }
    let claims = EntitlementClaims(entitlements, of: app, for: customer, at: instant)
    return try? key.sign(JSONWriter.bytes(of: claims))
  }

  /// The response with the public keys.
  /// - Throws: ``Problem`` `database_unavailable` before the keys are read, because caches would hold an empty set.
  func keySet(at instant: Date) throws -> Response {
    guard let keys else { throw ServiceError.databaseUnavailable }
    var response = try Response.json(KeySetResponse(keys: keys.published(at: instant).map(\.published)))
    response.headers[.cacheControl] = "public, max-age=\(KeySetResponse.maximumAge)"
    return response
  }
}
