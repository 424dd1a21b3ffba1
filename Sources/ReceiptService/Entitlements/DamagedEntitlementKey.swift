/// The error for a row whose private key does not match its id.
struct DamagedEntitlementKey: Error, CustomStringConvertible {
  var kid: String
  var description: String { "the entitlement key \(kid) in the database is damaged" }
}
