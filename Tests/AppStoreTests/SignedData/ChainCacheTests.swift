import Foundation
import Synchronization
import Testing

@testable import AppStore

struct ChainCacheTests {
  private final class HandClock: Sendable {
    let instant = Mutex(ContinuousClock.now)
    func advance(by duration: Duration) { instant.withLock { $0 += duration } }
    var now: @Sendable () -> ContinuousClock.Instant { { self.instant.withLock { $0 } } }
  }

  @Test func `a certificate chain is cached for its lifetime and then validated again`() throws {
    let authority = TestAuthority.shared
    let clock = HandClock()
    let verifier = SignedDataVerifier(roots: try authority.roots, lifetime: .seconds(60), now: clock.now)
    let jws = try authority.sign(Samples.transaction)
    let first = try verifier.transaction(jws).chain
    clock.advance(by: .seconds(59))
    #expect(try verifier.transaction(jws).chain === first)
    clock.advance(by: .seconds(1))
    let second = try verifier.transaction(jws).chain
    #expect(second !== first)
    #expect(second.fingerprint == first.fingerprint)
    #expect(verifier.cachedCount == 1)
  }

  @Test func `each payload's signed date is checked against a cached chain`() throws {
    let authority = TestAuthority.shared
    let verifier = try authority.verifier
    _ = try verifier.transaction(authority.sign(Samples.transaction))
    var late = Samples.transaction
    late.signedDate = TestAuthority.Instants.end + 1
    let failure = failure { () throws(VerificationFailure) in
      try verifier.transaction((try? authority.sign(late)) ?? "")
    }
    #expect(failure?.code == .certificateNotValidAtSignedDate)
  }

  @Test func `the chain cache is bounded and keeps the newest chains`() throws {
    let authority = TestAuthority.shared
    let verifier = SignedDataVerifier(roots: try authority.roots, cachedChains: 3)
    let x5c = try authority.x5c
    func jws(_ number: Int) throws -> String {
      let list = String(decoding: try JSONEncoder().encode(x5c), as: UTF8.self)
      let header = #"{"alg":"ES256","x5c":\#(list),"n":\#(number)}"#
      return try authority.sign(
        bytes: Array(JSONEncoder().encode(Samples.transaction)), header: Array(header.utf8))
    }
    var chains: [VerifiedChain] = []
    for number in 0..<5 {
      chains.append(try verifier.transaction(jws(number)).chain)
      #expect(verifier.cachedCount == min(number + 1, 3))
    }
    #expect(try verifier.transaction(jws(4)).chain === chains[4])
    #expect(try verifier.transaction(jws(2)).chain === chains[2])
    #expect(try verifier.transaction(jws(0)).chain !== chains[0])
  }

  @Test func `a chain without a verified signature is not cached`() throws {
    let authority = TestAuthority.shared
    let verifier = try authority.verifier
    let jws = try CompactJWS(authority.sign(Samples.transaction))
    let forged = CompactJWS.join(
      headerSegment: Array(jws.headerSegment), payload: Array("{}".utf8), signature: jws.signature)
    #expect(
      failure { () throws(VerificationFailure) in try verifier.transaction(forged) }?.code
        == .signatureInvalid)
    #expect(verifier.cachedCount == 0)
  }

  @Test func `concurrent threads can verify payloads of the same and of different signers`() throws {
    let authorities = [
      TestAuthority.shared, TestAuthority(name: "Second Root"), TestAuthority(name: "Third Root"),
    ]
    let verifier = SignedDataVerifier(roots: try TrustedRoots(files: authorities.map { try $0.root.der }))
    let texts = try authorities.map { try $0.sign(Samples.transaction) }
    let good = Atomic(0)
    DispatchQueue.concurrentPerform(iterations: 150) { iteration in
      if (try? verifier.transaction(texts[iteration % 3]))?.payload == Samples.transaction {
        good.add(1, ordering: .relaxed)
      }
    }
    #expect(good.load(ordering: .relaxed) == 150)
    #expect(verifier.cachedCount == 3)
  }
}
