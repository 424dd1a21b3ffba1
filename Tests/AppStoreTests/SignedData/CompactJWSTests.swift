import Foundation
import Testing

@testable import AppStore

struct CompactJWSTests {
  @Test func `joining the segments of a JWS rebuilds its text`() throws {
    let jws = try TestAuthority.shared.sign(Samples.transaction)
    let cut = try CompactJWS(jws)
    #expect(
      CompactJWS.join(
        headerSegment: Array(cut.headerSegment), payload: cut.payload, signature: cut.signature) == jws)
    #expect(try JSONDecoder().decode(TransactionInfo.self, from: Data(cut.payload)) == Samples.transaction)
  }

  @Test(arguments: [
    "", ".", "e30", "e30.e30", "e30.e30.AA.AA", "e30.e30.AA.", "e30.e3.AA", "e30.e30=.AA", "e30.e30.AA==",
  ])
  func `a text that is not three base64url segments is malformed`(text: String) {
    #expect(failure { () throws(VerificationFailure) in try CompactJWS(text) }?.code == .malformed)
  }

  @Test func `a JWS beyond the length limit is malformed, and one at the limit is parsed`() throws {
    let rest = ".e30.AA"
    let longest = String(repeating: "A", count: CompactJWS.maximumLength - rest.utf8.count) + rest
    #expect(try CompactJWS(longest).signature == [0])
    #expect(failure { () throws(VerificationFailure) in try CompactJWS("A" + longest) }?.code == .malformed)
  }
}
