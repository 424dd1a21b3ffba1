import Foundation
import Testing

@testable import AppStore

struct OpenSSLChainTests {
  private var transaction: TransactionInfo {
    var transaction = Samples.transaction
    transaction.signedDate = Date() + 60
    return transaction
  }

  @Test func `a payload under a chain from OpenSSL is accepted with its root in PEM`() async throws {
    let authority = try await OpenSSLAuthority()
    defer { try? authority.remove() }
    let verifier = SignedDataVerifier(roots: try TrustedRoots(files: [authority.root]))
    let signed = try verifier.transaction(try await authority.sign(transaction))
    #expect(signed.payload.transactionId == transaction.transactionId)
    var late = transaction
    late.signedDate = Date() + 6 * 86_400
    let jws = try await authority.sign(late)
    let failure = failure { () throws(VerificationFailure) in try verifier.transaction(jws) }
    #expect(failure?.code == .certificateNotValidAtSignedDate)
  }

  @Test func `a chain from OpenSSL without either marker is refused`() async throws {
    for (leaf, code) in [(false, .leafMarkerMissing), (true, .intermediateMarkerMissing)]
      as [(Bool, VerificationFailure.Code)]
    {
      let authority = try await OpenSSLAuthority(leafMarker: leaf, intermediateMarker: !leaf)
      defer { try? authority.remove() }
      let verifier = SignedDataVerifier(roots: try TrustedRoots(files: [authority.root]))
      let jws = try await authority.sign(transaction)
      #expect(failure { () throws(VerificationFailure) in try verifier.transaction(jws) }?.code == code)
    }
  }
}
