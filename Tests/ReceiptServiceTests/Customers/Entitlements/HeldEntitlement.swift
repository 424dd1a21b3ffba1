import Foundation

private struct KeySet: Decodable {
  struct Key: Decodable { var kty: String, kid: String, crv: String?, x: String? }
  var keys: [Key]
}

/// A value for the app's keychain that tells without a network what its customer may do.
struct HeldEntitlement<Features: Decodable>: Codable {
  let app: String
  let customer: String
  private var keys: [String: Data] = [:]
  private var token: String?
  /// The latest known time, so that setting the clock back gains nothing.
  private var latest = Date.distantPast

  init(app: String, customer: String) {
    self.app = app
    self.customer = customer
  }

  private var check: EntitlementCheck<Features> {
    EntitlementCheck(app: app, customer: customer, keys: keys)
  }

  /// Reads the response of `/.well-known/jwks.json`. Keys that it lacks are no longer accepted.
  mutating func learn(keySet: Data) throws {
    keys = [:]
    for key in try JSONDecoder().decode(KeySet.self, from: keySet).keys
    where key.kty == "OKP" && key.crv == "Ed25519" {
      keys[key.kid] = key.x.flatMap { Data(base64URL: $0) }
    }
  }

  /// Takes the `entitlementToken` of the latest response; `nil`: fetch the keys, and try once more.
  mutating func receive(_ new: String) -> Entitlement<Features>? {
    let held = token.flatMap { check.entitlement(in: $0, at: .distantPast) }
    // `iat` is the server's clock, which takes precedence over the device's. A token that is older than the
    // held one is a replay.
    guard let said = check.entitlement(in: new, at: .distantPast), said.iat >= held?.iat ?? 0
    else { return nil }
    (token, latest) = (new, Date(timeIntervalSince1970: said.iat))
    return said
  }

  /// What the customer may do now; `nil`: unknown, so ask the server. Store `self` after each call.
  mutating func entitlement(at now: Date = Date()) -> Entitlement<Features>? {
    latest = max(latest, now)
    return token.flatMap { check.entitlement(in: $0, at: latest) }
  }
}
