import Foundation
import SwiftASN1
import Testing
import X509

@testable import AppStore

/// Apple's real certificates: the root that is shipped, the G6 intermediate and the leaf of October 2025.
struct AppleChainTests {
  private static func chain() throws -> (chain: VerifiedChain, leaf: Certificate, intermediate: Certificate) {
    let roots = try TrustedRoots(files: [Files.appleRoot()])
    let leaf = try Files.fixture("ReceiptSigning-2025.cer")
    let intermediate = try Files.fixture("AppleWWDRCAG6.cer")
    let (key, path) = try ChainValidation(roots: roots).validate(leaf: leaf, intermediate: intermediate)
    return (
      VerifiedChain(headerSegment: [], key: key, path: path), try Certificate(derEncoded: leaf),
      try Certificate(derEncoded: intermediate)
    )
  }

  @Test func `the shipped root is Apple Root CA - G3`() throws {
    let roots = try TrustedRoots(files: [Files.appleRoot()])
    #expect(roots.fingerprints == [TrustedRoots.appleRootG3Fingerprint])
  }

  @Test func `Apple's production leaf is accepted from its first second to its last`() throws {
    let (chain, leaf, _) = try Self.chain()
    for instant in [leaf.notValidBefore, leaf.notValidBefore + 86_400 * 100, leaf.notValidAfter] {
      try chain.checkValid(at: instant)
    }
  }

  @Test func `a certificate that is not valid at the signed date is refused with its validity and that date`()
    throws
  {
    let (chain, leaf, intermediate) = try Self.chain()
    for (name, instant) in [
      ("leaf", leaf.notValidBefore - 1), ("leaf", leaf.notValidAfter + 1),
      ("leaf", intermediate.notValidBefore - 1), ("leaf", intermediate.notValidAfter + 1),
    ] {
      let failure = failure { () throws(VerificationFailure) in try chain.checkValid(at: instant) }
      #expect(failure?.code == .certificateNotValidAtSignedDate)
      let detail = try #require(failure?.detail)
      #expect(detail.hasPrefix("the \(name) certificate was valid from 2025-09-19T"))
      #expect(detail.contains("to 2027-10-13T"))
      #expect(detail.hasSuffix("signed at \(instant.formatted(.iso8601))"))
    }
  }

  @Test func `Apple's intermediate is refused as a leaf, and its leaf as an intermediate`() throws {
    let validation = ChainValidation(roots: try TrustedRoots(files: [Files.appleRoot()]))
    let leaf = try Files.fixture("ReceiptSigning-2025.cer")
    let intermediate = try Files.fixture("AppleWWDRCAG6.cer")
    let swapped = failure { () throws(VerificationFailure) in
      try validation.validate(leaf: intermediate, intermediate: leaf)
    }
    #expect(swapped?.code == .leafMarkerMissing)
    let doubled = failure { () throws(VerificationFailure) in
      try validation.validate(leaf: leaf, intermediate: leaf)
    }
    #expect(doubled?.code == .intermediateMarkerMissing)
  }

  @Test func `Apple's chain is not trusted under another root`() throws {
    let validation = ChainValidation(roots: try TestAuthority.shared.roots)
    let leaf = try Files.fixture("ReceiptSigning-2025.cer")
    let intermediate = try Files.fixture("AppleWWDRCAG6.cer")
    let failure = failure { () throws(VerificationFailure) in
      try validation.validate(leaf: leaf, intermediate: intermediate)
    }
    #expect(failure?.code == .untrustedRoot)
    #expect(failure?.detail.contains("Apple Root CA - G3") == true)
  }
}
