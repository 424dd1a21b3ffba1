import AppStore
import Crypto
import Foundation
import Testing

@testable import Customers

/// Signing keys and key rings, without a database.
@Suite struct EntitlementKeyRingTests {
  private static let start = Date(timeIntervalSince1970: 1_800_000_000)

  private static func entry(signsFrom seconds: TimeInterval) -> EntitlementKeyRing.Entry {
    EntitlementKeyRing.Entry(key: EntitlementKey(.init()), signsFrom: start + seconds)
  }

  @Test func `the key of RFC 8037 has the thumbprint and the signature of the RFC's appendix A`() throws {
    let bytes = try #require(Base64.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", .url))
    let key = try EntitlementKey(bytes: bytes)
    #expect(key.published.x == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
    #expect(key.kid == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")
    #expect("\(key)" == key.kid)
    let token = try key.sign(Array("Example of Ed25519 signing".utf8)).split(separator: ".")
    #expect(token[1] == "RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc")
    let header = try #require(Base64.decode(String(token[0]), .url))
    #expect(String(decoding: header, as: UTF8.self) == #"{"alg":"EdDSA","kid":"\#(key.kid)","typ":"JWT"}"#)
    let signature = try #require(Base64.decode(String(token[2]), .url))
    let isValid = try Curve25519.Signing.PrivateKey(rawRepresentation: bytes).publicKey
      .isValidSignature(signature, for: Data("\(token[0]).\(token[1])".utf8))
    #expect(isValid)
  }

  @Test func `at every instant one entitlement key signs, and all keys of unexpired tokens are published`() {
    let lifetime: TimeInterval = 7 * 86_400
    let entries = [0, 50_000, 900_000].map { Self.entry(signsFrom: $0) }
    let ring = EntitlementKeyRing(entries.shuffled(), lifetime: lifetime)
    for second in stride(from: -10_000.0, to: 3_000_000, by: 7_000) {
      let instant = Self.start + second
      let expected = entries.last { $0.signsFrom <= instant } ?? entries[0]
      #expect(ring.signing(at: instant)?.kid == expected.key.kid)
      // Every token that has not expired can be verified.
      let published = Set(ring.published(at: instant).map(\.kid))
      let signers = stride(from: 0, through: lifetime, by: 3_600).map { age in
        (entries.last { $0.signsFrom <= instant - age } ?? entries[0]).key.kid
      }
      #expect(published.isSuperset(of: signers))
      #expect(published.contains(entries[2].key.kid))
    }
    let end = ring.published(at: Self.start + 3_000_000).map(\.kid)
    #expect(end == [entries[2].key.kid])
  }

  @Test func `an empty entitlement key ring has no signing key, and a ring of key files publishes all keys`()
  {
    let empty = EntitlementKeyRing([], lifetime: 1)
    #expect(empty.signing(at: Self.start) == nil)
    #expect(empty.published(at: Self.start).isEmpty)
    let keys = (0..<3).map { _ in EntitlementKey(.init()) }
    let files = EntitlementKeyRing(files: keys)
    #expect(files.signing(at: Self.start)?.kid == keys[0].kid)
    #expect(files.published(at: .distantFuture).map(\.kid) == keys.map(\.kid))
  }
}
