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
    let server = FakeServer()
    let fake = Receiptd(
      server.configuration, free: free ?? entitlement.features, customer: .device("fake"),
      token: { _ in "fake" })
    server.show(Answer(entitlement))
    if entitlement.source != .none, let held = server.held(features: entitlement.features) {
      fake.core.board.show(held, isFresh: entitlement.source == .server)
    }
    return fake
  }

  /// Makes a fake show another entitlement, as if the server had said so. It has no effect on a real client.
  public func pretend(_ entitlement: Entitlement<Features>) async {
    guard let server = configuration.transport as? FakeServer else { return }
    server.show(Answer(entitlement))
    _ = try? await refresh()
  }
}

/// What a fake server answers.
private final class Answer: Sendable {
  /// The claims of the token, without those of the customer.
  let claims: [(name: String, value: JSON?)]
  let pairing: Pairing?
  let everHadAccess: Bool
  let trial: JSON

  init<Features>(_ entitlement: Entitlement<Features>) {
    let start = entitlement.verifiedAt ?? Date()
    let end = entitlement.validUntil
    let exp = entitlement.offlineGraceUntil ?? Date(timeIntervalSinceNow: 7 * 86_400)
    claims = [
      ("iss", .text("receiptd")), ("aud", .text("fake")), ("tier", JSON(entitlement.tier)),
      ("status", .text(entitlement.status.rawValue)),
      ("isAccessGranted", .flag(entitlement.isAccessGranted)),
      ("iat", .number(start.timeIntervalSince1970.rounded(.down))),
      ("exp", .number(exp.timeIntervalSince1970)), ("validUntil", JSON(end?.timeIntervalSince1970)),
      ("features", (try? JSONEncoder().encode(entitlement.features)).flatMap(JSON.init)),
    ]
    pairing = entitlement.pairing
    everHadAccess = entitlement.everHadAccess
    trial = .members(("startedAt", JSON(start)), ("endsAt", end.map { JSON($0) }))
  }
}

/// A server in memory that signs like receiptd, for ``Receiptd/fake(_:free:)``.
private final class FakeServer: Transport {
  private let key = Curve25519.Signing.PrivateKey()
  private let answer = Protected<Answer?>(nil)

  /// A configuration with this server, where nothing is kept.
  var configuration: ReceiptdConfiguration {
    var configuration = ReceiptdConfiguration(
      server: URL(string: "https://receiptd.invalid") ?? URL(fileURLWithPath: "/"), bundleID: "fake")
    configuration.transport = self
    configuration.store = MemoryStore()
    configuration.queues = MemoryStore()
    return configuration
  }

  func show(_ new: Answer) { answer.with { $0 = new } }

  /// A signed token for a customer, and its payload.
  private func token(_ answer: Answer, for customer: String) -> (token: String, payload: Data) {
    let payload = JSON.members(answer.claims + [("sub", .text(customer))]).data
    let header = Base64URL.string(#"{"alg":"EdDSA","kid":"fake","typ":"JWT"}"#.bytes)
    let text = "\(header).\(Base64URL.string(payload))"
    let signature = (try? key.signature(for: text.bytes)) ?? Data()
    return ("\(text).\(Base64URL.string(signature))", payload)
  }

  /// What a client holds after an answer of this server.
  func held(features: AnyFeatures) -> Held? {
    guard let answer = answer.with({ $0 }) else { return nil }
    let (token, payload) = token(answer, for: "fake")
    guard let claims = Claims(payload, app: "fake", customer: "fake") else { return nil }
    return Held(
      token: token, claims: claims, features: features, pairing: answer.pairing,
      everHadAccess: answer.everHadAccess)
  }

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    TransportResponse(status: 200, body: response(to: request))
  }

  private func response(to request: TransportRequest) -> Data {
    let path = request.url.path.components(separatedBy: "/")
    switch path.last {
    case "jwks.json":
      let x = Base64URL.string(key.publicKey.rawRepresentation)
      return #"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"fake","x":"\#(x)"}]}"#.bytes
    case "events": return #"{"accepted":0}"#.bytes
    case "pairing-codes": return #"{"code":"7KQ4-M2XD","expiresAt":"2100-01-01T00:00:00Z"}"#.bytes
    case "parent": return #"{"pairing":{"role":"child","state":"active"}}"#.bytes
    case "entitlements", "premium", "validate", "trials":
      guard let answer = answer.with({ $0 }) else { return "{}".bytes }
      // The path or the body names the customer.
      let body = request.body.flatMap(JSON.init)?["deviceID"]?.text
      let customer = body ?? path.dropLast().last ?? ""
      return JSON.members(
        (
          "entitlements",
          .members(
            ("entitlementToken", .text(token(answer, for: customer).token)),
            ("everHadAccess", .flag(answer.everHadAccess)))
        ), ("pairing", answer.pairing?.json), ("trial", answer.trial)
      ).data
    default: return #"{"children":[]}"#.bytes
    }
  }
}
