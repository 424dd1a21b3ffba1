import Crypto
import Foundation
import SwiftASN1
import Testing
import X509

@testable import AppStore

/// Chains with one fault each. All signatures are valid, so only the named fault can refuse the chain.
struct ChainRefusalTests {
  private typealias Instants = TestAuthority.Instants
  private static let leaf = TestAuthority.Plan(marker: ChainValidation.leafMarker, isAuthority: false)
  private static let intermediate = TestAuthority.Plan(
    marker: ChainValidation.intermediateMarker, isAuthority: true)
  private static let root = TestAuthority.Plan(isAuthority: true)

  private func refusal(
    _ authority: TestAuthority, header: Header? = nil, verifier: SignedDataVerifier? = nil,
    payload: TransactionInfo = Samples.transaction
  ) throws -> VerificationFailure? {
    let jws = try authority.sign(payload, header: header)
    let verifier = try verifier ?? authority.verifier
    let failure = failure { () throws(VerificationFailure) in try verifier.transaction(jws) }
    #expect(failure?.subject == .transaction)
    #expect(failure?.isAuthentic == (failure?.code == .malformedPayload))
    #expect(verifier.cachedCount == 0 || failure?.code == .certificateNotValidAtSignedDate)
    return failure
  }

  @Test func `a certificate chain in Apple's form is accepted`() throws {
    let jws = try TestAuthority.shared.sign(Samples.transaction)
    let signed = try TestAuthority.shared.verifier.transaction(jws)
    #expect(signed.payload == Samples.transaction)
    #expect(signed.compactJWS == jws)
    #expect(signed.chain.fingerprint == Array(SHA256.hash(data: signed.chain.headerSegment)))
  }

  @Test func `a leaf without Apple's marker extension is refused`() throws {
    var plan = Self.leaf
    plan.marker = nil
    #expect(try refusal(TestAuthority(leaf: plan))?.code == .leafMarkerMissing)
    plan.marker = ChainValidation.intermediateMarker
    #expect(try refusal(TestAuthority(leaf: plan))?.code == .leafMarkerMissing)
  }

  @Test func `an intermediate without Apple's marker extension is refused`() throws {
    var plan = Self.intermediate
    plan.marker = nil
    #expect(try refusal(TestAuthority(intermediate: plan))?.code == .intermediateMarkerMissing)
    plan.marker = ChainValidation.leafMarker
    #expect(try refusal(TestAuthority(intermediate: plan))?.code == .intermediateMarkerMissing)
  }

  @Test func `an intermediate that is not a certificate authority is refused`() throws {
    var plan = Self.intermediate
    plan.isAuthority = false
    #expect(try refusal(TestAuthority(intermediate: plan))?.code == .brokenChain)
  }

  @Test func `a root that is not an authority, or allows no intermediate, is refused`() throws {
    var plan = Self.root
    plan.isAuthority = false
    #expect(try refusal(TestAuthority(root: plan))?.code == .brokenChain)
    plan.isAuthority = true
    plan.maxPathLength = 0
    #expect(try refusal(TestAuthority(root: plan))?.code == .brokenChain)
    plan.maxPathLength = 1
    let authority = TestAuthority(root: plan)
    _ = try authority.verifier.transaction(authority.sign(Samples.transaction))
  }

  @Test func `a certificate whose key usage forbids its use is refused`() throws {
    var leaf = Self.leaf
    leaf.usage = KeyUsage(keyEncipherment: true)
    #expect(try refusal(TestAuthority(leaf: leaf))?.code == .brokenChain)
    var intermediate = Self.intermediate
    intermediate.usage = KeyUsage(digitalSignature: true)
    #expect(try refusal(TestAuthority(intermediate: intermediate))?.code == .brokenChain)
    leaf.usage = KeyUsage(digitalSignature: true)
    intermediate.usage = KeyUsage(keyCertSign: true, cRLSign: true)
    let authority = TestAuthority(intermediate: intermediate, leaf: leaf)
    _ = try authority.verifier.transaction(authority.sign(Samples.transaction))
  }

  @Test func `an unknown certificate extension is refused only if it is critical`() throws {
    for critical in [true, false] {
      var plan = Self.leaf
      plan.more = [
        Certificate.Extension(oid: [1, 3, 6, 1, 4, 1, 99_999], critical: critical, value: [5, 0])
      ]
      let authority = TestAuthority(leaf: plan)
      if critical {
        #expect(try refusal(authority)?.code == .brokenChain)
      } else {
        _ = try authority.verifier.transaction(authority.sign(Samples.transaction))
      }
    }
  }

  @Test(arguments: [0, 1, 2, 4, 5])
  func `a JWS header without exactly three certificates is refused`(count: Int) throws {
    let authority = TestAuthority.shared
    let three = try authority.x5c
    let header = Header(x5c: (0..<count).map { three[min($0, 2)] })
    #expect(try refusal(authority, header: header)?.code == .certificateCount)
    #expect(try refusal(authority, header: Header())?.code == .certificateCount)
  }

  @Test func `the third certificate of x5c is ignored, and a trusted root must have signed the chain`() throws
  {
    let other = TestAuthority(name: "Other Root")
    #expect(try refusal(.shared, verifier: other.verifier)?.code == .untrustedRoot)
    // A trusted root in third place does not help.
    let header = Header(
      x5c: try [other.leaf.base64, other.intermediate.base64, TestAuthority.shared.root.base64])
    #expect(
      try refusal(other, header: header, verifier: TestAuthority.shared.verifier)?.code == .untrustedRoot)
    // A wrong certificate in third place does not invalidate the chain.
    let stray = Header(
      x5c: try [other.leaf.base64, other.intermediate.base64, TestAuthority.shared.root.base64])
    _ = try other.verifier.transaction(other.sign(Samples.transaction, header: stray))
  }

  @Test func `another root of the same name is refused, and does not disturb the correct one`() throws {
    let imposter = TestAuthority()
    #expect(try refusal(imposter, verifier: TestAuthority.shared.verifier)?.code == .untrustedRoot)
    let both = try TrustedRoots(files: [imposter.root.der, TestAuthority.shared.root.der])
    _ = try SignedDataVerifier(roots: both).transaction(TestAuthority.shared.sign(Samples.transaction))
  }

  @Test func `certificates of x5c in another order are refused`() throws {
    let authority = TestAuthority.shared
    let (leaf, intermediate, root) = try (authority.x5c[0], authority.x5c[1], authority.x5c[2])
    for order in [
      [intermediate, leaf, root], [root, intermediate, leaf], [leaf, root, intermediate],
      [intermediate, root, leaf], [root, leaf, intermediate],
    ] {
      let code = try refusal(authority, header: Header(x5c: order))?.code
      #expect(code == .leafMarkerMissing || code == .intermediateMarkerMissing)
    }
  }

  @Test func `a leaf that another leaf issued is refused`() throws {
    // The real leaf, in the place of the intermediate, signs a leaf of its own.
    let authority = TestAuthority.shared
    let key = P256.Signing.PrivateKey()
    let forged = TestAuthority.certificate(
      "Forged", .init(key.publicKey), Self.leaf, issuedBy: "Test Root Leaf", with: .init(authority.leafKey))
    let validation = ChainValidation(roots: try authority.roots)
    let failure = failure { () throws(VerificationFailure) in
      try validation.validate(leaf: (try? forged.der) ?? [], intermediate: (try? authority.leaf.der) ?? [])
    }
    #expect(failure?.code == .intermediateMarkerMissing)
  }

  @Test func `a leaf issued by a leaf with the intermediate's marker is refused`()
    throws
  {
    var plan = Self.leaf
    plan.more = [
      Certificate.Extension(oid: ChainValidation.intermediateMarker, critical: false, value: [5, 0])
    ]
    let authority = TestAuthority(leaf: plan)
    let forged = TestAuthority.certificate(
      "Forged", .init(P256.Signing.PrivateKey().publicKey), Self.leaf, issuedBy: "Test Root Leaf",
      with: .init(authority.leafKey))
    let validation = ChainValidation(roots: try authority.roots)
    let failure = failure { () throws(VerificationFailure) in
      try validation.validate(leaf: (try? forged.der) ?? [], intermediate: (try? authority.leaf.der) ?? [])
    }
    #expect(failure?.code == .brokenChain)
  }

  @Test func `a leaf that names the intermediate, but was signed by another key, is refused`() throws {
    let authority = TestAuthority.shared
    let forged = TestAuthority.certificate(
      "Test Root Leaf", .init(authority.leafKey.publicKey), Self.leaf, issuedBy: "Test Root Intermediate",
      with: .init(P384.Signing.PrivateKey()))
    let header = Header(x5c: try [forged.base64, authority.intermediate.base64, authority.root.base64])
    #expect(try refusal(authority, header: header)?.code == .brokenChain)
  }

  @Test func `a leaf that the intermediate signed, but that names another issuer, is refused`() throws {
    let authority = TestAuthority.shared
    let odd = TestAuthority.certificate(
      "Test Root Leaf", .init(authority.leafKey.publicKey), Self.leaf, issuedBy: "Another Issuer",
      with: .init(authority.intermediateKey))
    let header = Header(x5c: try [odd.base64, authority.intermediate.base64, authority.root.base64])
    #expect(try refusal(authority, header: header)?.code == .brokenChain)
  }

  @Test func `a leaf with a key on another curve is refused`() throws {
    let authority = TestAuthority.shared
    let odd = TestAuthority.certificate(
      "Test Root Leaf", .init(P384.Signing.PrivateKey().publicKey), Self.leaf,
      issuedBy: "Test Root Intermediate", with: .init(authority.intermediateKey))
    let header = Header(x5c: try [odd.base64, authority.intermediate.base64, authority.root.base64])
    #expect(try refusal(authority, header: header)?.code == .unsupportedAlgorithm)
  }

  @Test func `an x5c entry that is not base64 of a certificate is refused`() throws {
    let three = try TestAuthority.shared.x5c
    for bad in [
      "", "AAAA", "not base64!", Base64.string(Array("text".utf8), .url), String(three[0].dropLast(4)),
    ] {
      for place in 0..<2 {
        var x5c = three
        x5c[place] = bad
        #expect(try refusal(.shared, header: Header(x5c: x5c))?.code == .certificateMalformed)
      }
    }
    // RFC 7515 allows no base64url, line breaks or trailing bytes in x5c.
    let trailing = Base64.string(try TestAuthority.shared.leaf.der + [0], .standard)
    for bad in [trailing, three[0] + "\n", String(three[0].prefix(64)) + "\n" + three[0].dropFirst(64)] {
      #expect(
        try refusal(.shared, header: Header(x5c: [bad, three[1], three[2]]))?.code == .certificateMalformed)
    }
  }

  @Test func `a chain with a certificate that was not valid at the signed date is refused`() throws {
    let windows = [
      Instants.begin...(Instants.signed - 1), (Instants.signed + 1)...Instants.end,
    ]
    for window in windows {
      var (root, intermediate, leaf) = (Self.root, Self.intermediate, Self.leaf)
      root.window = window
      let late = try refusal(TestAuthority(root: root))
      #expect(late?.code == .certificateNotValidAtSignedDate)
      #expect(late?.detail.hasPrefix("the root certificate was valid from") == true)
      intermediate.window = window
      let later = try refusal(TestAuthority(intermediate: intermediate))
      #expect(later?.code == .certificateNotValidAtSignedDate)
      #expect(later?.detail.hasPrefix("the intermediate certificate was valid from") == true)
      leaf.window = window
      let latest = try refusal(TestAuthority(leaf: leaf))
      #expect(latest?.code == .certificateNotValidAtSignedDate)
      #expect(latest?.detail.hasPrefix("the leaf certificate was valid from") == true)
    }
  }

  @Test func `an expired leaf is accepted for payloads signed while it was valid`() throws {
    // This leaf expired in 2023.
    var leaf = Self.leaf
    leaf.window = Instants.begin...(Instants.begin + 3600)
    let authority = TestAuthority(leaf: leaf)
    var transaction = Samples.transaction
    transaction.signedDate = Instants.begin + 3600
    _ = try authority.verifier.transaction(authority.sign(transaction))
    transaction.signedDate = Instants.begin + 3601
    #expect(try refusal(authority, payload: transaction)?.code == .certificateNotValidAtSignedDate)
  }
}
