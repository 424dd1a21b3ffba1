import Foundation

private struct KeySet: Decodable {
  struct Key: Decodable { var kty: String, kid: String, crv: String?, x: String? }
  var keys: [Key]
}

/// What an app keeps in its keychain, so that it knows without a network what its customer may do.
struct HeldEntitlement<Features: Decodable>: Codable {
  let app: String
  let customer: String
  private var keys: [String: Data] = [:]
  private var token: String?
  /// The latest time that is known to have been, so that turning the clock back gains nothing.
  private var latest = Date.distantPast

  init(app: String, customer: String) {
    self.app = app
    self.customer = customer
  }

  private var check: EntitlementCheck<Features> {
    EntitlementCheck(app: app, customer: customer, keys: keys)
  }

  /// Takes the answer of `/.well-known/jwks.json`. What it does not name any more is not believed any more.
  mutating func learn(keySet: Data) throws {
    keys = [:]
    for key in try JSONDecoder().decode(KeySet.self, from: keySet).keys
    where key.kty == "OKP" && key.crv == "Ed25519" {
      keys[key.kid] = key.x.flatMap { Data(base64URL: $0) }
    }
  }

  /// Takes the `entitlementToken` of an answer that came just now; `nil`: fetch the keys, and try it once more.
  mutating func receive(_ new: String) -> Entitlement<Features>? {
    let held = token.flatMap { check.entitlement(in: $0, at: .distantPast) }
    // The server's clock stands in it, and counts for more than the device's. One from before the one that is
    // held comes from somebody who kept it.
    guard let said = check.entitlement(in: new, at: .distantPast), said.iat >= held?.iat ?? 0
    else { return nil }
    (token, latest) = (new, Date(timeIntervalSince1970: said.iat))
    return said
  }

  /// What the customer may do now; `nil`: nobody knows, so ask the server. Store `self` again after it.
  mutating func entitlement(at now: Date = Date()) -> Entitlement<Features>? {
    latest = max(latest, now)
    return token.flatMap { check.entitlement(in: $0, at: latest) }
  }
}
