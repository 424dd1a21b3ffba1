import Foundation

#if canImport(CryptoKit)
import CryptoKit
#else
import Crypto
#endif

extension Receiptd {
  /// A client for previews and tests that shows this entitlement, without a network: a device is signed in, purchases succeed, and
  /// nothing is kept.
  /// - Parameter free: the features without access, by default those of the entitlement.
  public static func fake(_ entitlement: Entitlement<Features>, free: Features? = nil) -> Receiptd<Features> {
    let server = FakeServer(bundleID: "fake")
    var configuration = ReceiptdConfiguration(server: FakeServer.address, bundleID: server.bundleID)
    configuration.transport = server
    configuration.store = MemoryStore()
    configuration.queues = MemoryStore()
    let fake = Receiptd(configuration, free: free ?? entitlement.features, customer: .device("fake"))
    server.show(entitlement, at: Date())
    if entitlement.source != .none {
      let answer = server.answer(for: "fake")
      let held = Held(
        claims: answer.claims, features: entitlement.features,
        kept: KeptEntitlement(
          token: answer.token, pairing: entitlement.pairing, everHadAccess: entitlement.everHadAccess),
        isFresh: entitlement.source == .server)
      fake.board.state.with { $0.held = held }
    }
    return fake
  }

  /// Makes a fake show another entitlement, as if the server had said so. It has no effect on a real client.
  public func pretend(_ entitlement: Entitlement<Features>) async {
    guard let server = configuration.transport as? FakeServer else { return }
    server.show(entitlement, at: Date())
    _ = try? await refresh()
  }
}

/// A server in memory that signs like receiptd, for ``Receiptd/fake(_:free:)``.
final class FakeServer: Transport {
  private struct State: Sendable {
    var features = Data("{}".utf8)
    var claims: Claims
    var pairing: Pairing?
    var everHadAccess = false
    var customer = "fake"
  }

  static let address: URL = {
    // A constant that is an address.
    URL(string: "https://receiptd.invalid") ?? URL(fileURLWithPath: "/")
  }()

  let bundleID: String
  private let key = Curve25519.Signing.PrivateKey()
  private let state: Protected<State>

  init(bundleID: String) {
    self.bundleID = bundleID
    let claims = Claims(
      iss: "receiptd", aud: bundleID, sub: "", tier: nil, status: "expired", isAccessGranted: false, iat: 0,
      exp: 0)
    state = Protected(State(claims: claims))
  }

  func show<Features>(_ entitlement: Entitlement<Features>, at now: Date) {
    state.with {
      $0.features = (try? JSONEncoder().encode(entitlement.features)) ?? Data("{}".utf8)
      $0.pairing = entitlement.pairing
      $0.everHadAccess = entitlement.everHadAccess
      $0.claims.tier = entitlement.tier
      $0.claims.status = entitlement.status.rawValue
      $0.claims.isAccessGranted = entitlement.isAccessGranted
      $0.claims.iat = (entitlement.verifiedAt ?? now).timeIntervalSince1970.rounded(.down)
      $0.claims.exp =
        (entitlement.offlineGraceUntil ?? now.addingTimeInterval(7 * 86_400)).timeIntervalSince1970
      $0.claims.validUntil = entitlement.validUntil?.timeIntervalSince1970
    }
  }

  /// A signed token for a customer.
  func answer(for customer: String) -> (claims: Claims, token: String) {
    let state = state.with { state -> State in
      state.claims.sub = customer
      return state
    }
    var payload = (try? JSONEncoder().encode(state.claims)) ?? Data("{}".utf8)
    // The features are JSON already, so they are put in as they are.
    payload.removeLast()
    payload += Data(#","features":"#.utf8) + state.features + Data("}".utf8)
    let header = Data(#"{"alg":"EdDSA","kid":"fake","typ":"JWT"}"#.utf8)
    let text = "\(Base64URL.string(header)).\(Base64URL.string(payload))"
    let signature = (try? key.signature(for: Data(text.utf8))) ?? Data()
    return (state.claims, "\(text).\(Base64URL.string(signature))")
  }

  private struct Body: Decodable {
    var deviceID: String?
  }

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    let path = request.url.path.split(separator: "/").map(String.init)
    if path.last == "jwks.json" {
      let x = Base64URL.string(key.publicKey.rawRepresentation)
      return Self.json(200, #"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"fake","x":"\#(x)"}]}"#)
    }
    if path.count >= 4, ["devices", "profiles"].contains(path[2]) { state.with { $0.customer = path[3] } }
    if let device = request.body.flatMap({ try? JSONDecoder().decode(Body.self, from: $0) })?.deviceID {
      state.with { $0.customer = device }
    }
    switch path.last {
    case "entitlements", "premium", "validate", "trials": return entitlements(isTrial: path.last == "trials")
    case "events": return Self.json(202, #"{"success":true,"accepted":0}"#)
    case "pairing-codes":
      return Self.json(201, #"{"success":true,"code":"7KQ4-M2XD","expiresAt":"2100-01-01T00:00:00Z"}"#)
    case "parent":
      return Self.json(200, #"{"success":true,"pairing":{"role":"child","state":"active","reason":null}}"#)
    case "consent": return Self.json(200, #"{"success":true}"#)
    default: return Self.json(200, #"{"success":true,"children":[]}"#)
    }
  }

  private func entitlements(isTrial: Bool) -> TransportResponse {
    struct Answer: Encodable {
      struct Member: Encodable {
        var entitlementToken: String
        var everHadAccess: Bool
      }
      var entitlements: Member
      var pairing: Pairing?
      var trial: Trial?
    }
    let state = state.with { $0 }
    let (claims, token) = answer(for: state.customer)
    let end = claims.validUntil.map { Date(timeIntervalSince1970: $0) }
    let answer = Answer(
      entitlements: .init(entitlementToken: token, everHadAccess: state.everHadAccess),
      pairing: state.pairing,
      trial: isTrial ? Trial(startedAt: Date(timeIntervalSince1970: claims.iat), endsAt: end) : nil)
    return TransportResponse(status: 200, body: (try? API.encoder.encode(answer)) ?? Data())
  }

  private static func json(_ status: Int, _ text: String) -> TransportResponse {
    TransportResponse(status: status, body: Data(text.utf8))
  }
}
