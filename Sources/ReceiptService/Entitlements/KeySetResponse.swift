/// `GET /.well-known/jwks.json` (RFC 7517 section 5).
struct KeySetResponse: Encodable, Sendable {
  /// How long caches may hold it, in seconds.
  static let maximumAge = 600

  var keys: [PublishedKey]
}
