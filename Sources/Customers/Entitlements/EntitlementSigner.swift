import Foundation
import HTTP
import HTTPTypes
import JSON
import Requests
import Subscriptions
import Synchronization

/// Signs entitlement tokens with the current key and publishes the keys that verify them.
///
/// Every response uses it, so it reads keys from memory and never waits. Without a key, or if signing fails, the
/// response has no token.
package final class EntitlementSigner: Sendable {
  private let ring: Mutex<EntitlementKeyRing?>

  package init(_ ring: EntitlementKeyRing? = nil) { self.ring = Mutex(ring) }

  /// Replaces the keys.
  package func adopt(_ new: EntitlementKeyRing) { ring.withLock { $0 = new } }

  private var keys: EntitlementKeyRing? { ring.withLock { $0 } }

  /// The id of the key that signs; `nil` without keys.
  package func kid(at instant: Date) -> String? { keys?.signing(at: instant)?.kid }

  /// A compact JWT of a customer's entitlements; `nil` without keys.
  package func token(
    for entitlements: Entitlements, of app: App, to customer: Customer, at instant: Date
  ) -> String? {
    guard let key = keys?.signing(at: instant) else { return nil }
    let claims = EntitlementClaims(entitlements, of: app, for: customer, at: instant)
    return try? key.sign(JSONWriter.bytes(of: claims))
  }

  /// The response with the public keys.
  /// - Throws: ``Problem`` `database_unavailable` before the keys are read, because caches would hold an empty set.
  package func keySet(at instant: Date) throws -> Response {
    guard let keys else { throw ServiceError.databaseUnavailable }
    var response = try Response.json(KeySetResponse(keys: keys.published(at: instant).map(\.published)))
    response.headers[.cacheControl] = "public, max-age=\(KeySetResponse.maximumAge)"
    return response
  }
}

/// The claims of an entitlement token (RFC 7519). Times are whole seconds since 1970.
package struct EntitlementClaims: Sendable {
  package static let issuer = "receiptd"
  /// The app's bundle id; other apps must reject the token.
  package var aud: String
  /// The user's UUID in lower case, or the device id.
  package var sub: String
  package var tier: String?
  package var status: String
  package var isAccessGranted: Bool
  package var features: Features
  var iat: Int64
  /// The end of the offline time, ``Entitlements/offlineGraceUntil``. Denied access is cached for the days of the
  /// offline grace.
  package var exp: Int64
  /// When the entitlements change without another event: a hint to fetch again, not an end of access. Absent if never.
  package var validUntil: Int64?

  /// Lets a client verify a response on arrival, even if the app allows no offline time.
  private static let minimumLifetime: TimeInterval = 300

  /// The longest lifetime of a token of this app, in seconds; `nil` for no end.
  package static func lifetime(in app: App) -> TimeInterval? {
    app.offline == .paidTime ? nil : graceLifetime(in: app)
  }

  private static func graceLifetime(in app: App) -> TimeInterval {
    max(TimeInterval(app.offlineGraceDays) * 86_400, minimumLifetime)
  }

  init(_ entitlements: Entitlements, of app: App, for customer: Customer, at instant: Date) {
    aud = app.bundleID
    sub = customer.id
    tier = entitlements.tier
    status = entitlements.status.rawValue
    isAccessGranted = entitlements.isAccessGranted
    features = entitlements.features
    iat = instant.wholeSeconds
    exp =
      (entitlements.offlineGraceUntil.map { max($0, instant + Self.minimumLifetime) }
      ?? instant + Self.graceLifetime(in: app)).wholeSeconds
    validUntil = entitlements.validUntil?.wholeSeconds
  }
}

extension Date {
  /// Cannot overflow: dates come from 64-bit milliseconds, or from the present and a number of days.
  fileprivate var wholeSeconds: Int64 { Int64(timeIntervalSince1970.rounded(.down)) }
}

extension EntitlementClaims: JSONWritable {
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("aud", aud)
      json.member("exp", exp)
      json.member("features", features)
      json.member("iat", iat)
      json.member("isAccessGranted", isAccessGranted)
      json.member("iss", Self.issuer)
      json.member("status", status)
      json.member("sub", sub)
      json.member("tier", tier)
      json.member("validUntil", ifPresent: validUntil)
    }
  }
}

/// `GET /.well-known/jwks.json` (RFC 7517 section 5).
struct KeySetResponse: Encodable, Sendable {
  /// How long caches may hold it, in seconds.
  static let maximumAge = 600

  var keys: [PublishedKey]
}
