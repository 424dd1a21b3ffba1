import Foundation
import Testing

@testable import AppStore

struct CondensedPayloadTests {
  private let authority = TestAuthority.shared

  private func expand(_ condensed: CondensedPayload) -> [UInt8]? {
    CondensedPayload.expand(condensed.bytes) { fingerprint in
      condensed.headers.first { $0.fingerprint == fingerprint }?.headerSegment
    }
  }

  @Test func `a notification is rebuilt exactly from what storage keeps`() throws {
    let jws = try authority.sign(Samples.notification())
    let notification = try authority.verifier.notification(jws)
    let condensed = try #require(notification.condensedPayload)
    #expect(condensed.headers.count == 1, "both inner JWS have the same signer")
    let header = notification.envelope.chain.headerSegment
    #expect(condensed.bytes.count == notification.envelope.payloadBytes.count - 2 * header.count + 2 * 33)
    let payload = try #require(expand(condensed))
    #expect(
      CompactJWS.join(headerSegment: header, payload: payload, signature: notification.envelope.signature)
        == jws)
  }

  @Test func `inner JWS of several signers are each condensed by their own header`() throws {
    let other = TestAuthority(name: "Other Root")
    var payload = try Samples.notification()
    payload.data?.signedRenewalInfo = try other.sign(Samples.renewalInfo)
    let verifier = SignedDataVerifier(roots: try TrustedRoots(files: [authority.root.der, other.root.der]))
    let notification = try verifier.notification(authority.sign(payload))
    let condensed = try #require(notification.condensedPayload)
    #expect(condensed.headers.count == 2)
    #expect(expand(condensed) == notification.envelope.payloadBytes)
  }

  @Test func `a notification without JWS in it stays as it is`() throws {
    let notification = try authority.verifier.notification(
      authority.sign(Samples.notification(transaction: nil, renewalInfo: nil)))
    let condensed = try #require(notification.condensedPayload)
    #expect(condensed.headers.isEmpty)
    #expect(condensed.bytes == notification.envelope.payloadBytes)
    #expect(expand(condensed) == notification.envelope.payloadBytes)
  }

  @Test func `a fingerprint with zero bytes in it does no harm`() {
    let fingerprint = [UInt8](repeating: 0, count: 32)
    let condensed = Array("a".utf8) + [0] + fingerprint + Array("b".utf8)
    let expanded = CondensedPayload.expand(condensed) { $0 == fingerprint ? Array("header".utf8) : nil }
    #expect(expanded == Array("aheaderb".utf8))
  }

  @Test func `what was not condensed, or whose header is gone, does not expand`() {
    let cut: [UInt8] = [0] + [UInt8](repeating: 1, count: 31)
    #expect(CondensedPayload.expand(cut) { _ in [1] } == nil)
    #expect(CondensedPayload.expand(cut + [1]) { _ in nil } == nil)
    #expect(CondensedPayload([1, 0, 2], leavingOut: []) == nil)
  }
}
