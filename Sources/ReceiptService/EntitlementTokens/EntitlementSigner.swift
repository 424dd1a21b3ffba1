import FoundationEssentials
import HTTP
import HTTPTypes
import JSON
import Subscriptions
import Synchronization

/// Signs entitlement tokens with the key of the moment and publishes the keys that verify them.
///
/// On the way of every answer, so it reads what is in memory and never waits. Where there is no key yet, or signing
/// fails, an answer goes without a token rather than not at all.
final class EntitlementSigner: Sendable {
  private let ring: Mutex<EntitlementKeyRing?>

  init(_ ring: EntitlementKeyRing? = nil) { self.ring = Mutex(ring) }

  /// Signs with these keys from now on.
  func adopt(_ new: EntitlementKeyRing) { ring.withLock { $0 = new } }

  private var keys: EntitlementKeyRing? { ring.withLock { $0 } }

  /// The name of the key that signs; `nil` where there is none.
  func kid(at instant: Date) -> String? { keys?.signing(at: instant)?.kid }

  /// A compact JWT of what a customer may do; `nil` where there is no key.
  func token(
    for entitlements: Entitlements, of app: App, to customer: Customer, at instant: Date
  ) -> String? {
    guard let key = keys?.signing(at: instant) else { return nil }
    let claims = EntitlementClaims(entitlements, of: app, for: customer, at: instant)
    return try? key.sign(JSONWriter.bytes(of: claims))
  }

  /// The public keys.
  /// - Throws: ``Problem`` `database_unavailable` where none were read yet: an empty set would be remembered.
  func keySet(at instant: Date) throws -> Response {
    guard let keys else { throw ServiceError.databaseUnavailable }
    var response = try Response.json(KeySetAnswer(keys: keys.published(at: instant).map(\.published)))
    response.headers[.cacheControl] = "public, max-age=\(KeySetAnswer.maximumAge)"
    return response
  }
}

/// `GET /.well-known/jwks.json` (RFC 7517 section 5).
struct KeySetAnswer: Encodable, Sendable {
  /// How long caches may keep it, in seconds.
  static let maximumAge = 600

  var keys: [PublishedKey]
}
