import Crypto
import Foundation
import SwiftASN1
import Testing
import X509

@testable import AppStore

/// Compares the rules for a path of three certificates with swift-certificates' `Verifier` and RFC 5280 policy.
struct PathBuilderAgreementTests {
  private struct Markers: VerifierPolicy {
    var verifyingCriticalExtensions: [ASN1ObjectIdentifier] {
      [ChainValidation.leafMarker, ChainValidation.intermediateMarker]
    }

    func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) -> PolicyEvaluationResult {
      let found =
        chain.count == 3 && chain[0].extensions[oid: ChainValidation.leafMarker] != nil
        && chain[1].extensions[oid: ChainValidation.intermediateMarker] != nil
      return found ? .meetsPolicy : .failsToMeetPolicy(reason: "markers")
    }
  }

  private func libraryAccepts(_ authority: TestAuthority, under root: Certificate) async -> Bool {
    var verifier = Verifier(rootCertificates: CertificateStore([root])) {
      RFC5280Policy()
      Markers()
    }
    let result = await verifier.validate(
      leaf: authority.leaf, intermediates: CertificateStore([authority.intermediate]))
    guard case .validCertificate = result else { return false }
    return true
  }

  @Test
  func
    `every fault and pair of faults in a chain gets the same verdict as from swift-certificates' Verifier`()
    async throws
  {
    // The library checks the current date, so these certificates are valid for a long time.
    let window = Date(timeIntervalSince1970: 0)...Date(timeIntervalSince1970: 4_000_000_000)
    let odd = Certificate.Extension(oid: [1, 3, 6, 1, 4, 1, 99_999], critical: true, value: [5, 0])
    var verdicts: [Bool: Int] = [:]
    for fault in 0..<256 where fault.nonzeroBitCount <= 2 {
      func has(_ bit: Int) -> Bool { fault & (1 << bit) != 0 }
      var root = TestAuthority.Plan(isAuthority: !has(0), window: window)
      root.maxPathLength = has(1) ? 0 : nil
      var intermediate = TestAuthority.Plan(
        marker: has(2) ? nil : ChainValidation.intermediateMarker, isAuthority: !has(3), window: window)
      intermediate.maxPathLength = has(4) ? 0 : nil
      intermediate.more = has(5) ? [odd] : []
      var leaf = TestAuthority.Plan(
        marker: has(6) ? nil : ChainValidation.leafMarker, isAuthority: false, window: window)
      leaf.more = has(7) ? [odd] : []
      let authority = TestAuthority(root: root, intermediate: intermediate, leaf: leaf)
      let ours =
        (try? ChainValidation(roots: authority.roots).validate(
          leaf: authority.leaf.der, intermediate: authority.intermediate.der)) != nil
      let theirs = await libraryAccepts(authority, under: authority.root)
      #expect(ours == theirs, "faults \(fault)")
      verdicts[ours, default: 0] += 1
    }
    // Only two cases are valid: no fault, and a path length that is long enough.
    #expect(verdicts == [true: 2, false: 35])
  }
}
