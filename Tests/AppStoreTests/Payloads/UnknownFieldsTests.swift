import Foundation
import Testing

@testable import AppStore

struct UnknownFieldsTests {
  private func unknownFields(_ text: String) throws -> [String] {
    let authority = TestAuthority.shared
    let signed = try authority.verifier.transaction(authority.sign(bytes: Array(text.utf8)))
    #expect(signed.payloadBytes == Array(text.utf8))
    return signed.unknownFields()
  }

  // The samples' dates lie before the test authority's certificates.
  private let text = Texts.transaction.replacing(
    #""signedDate":1698148800000"#, with: #""signedDate":1750000000000"#)

  @Test func `a payload of known fields has none`() throws {
    #expect(try unknownFields(text) == [])
  }

  @Test func `new fields are told, wherever they are, and null counts for nothing`() throws {
    let new = text.replacing(#"{"transactionId""#, with: #"{"zest":null,"brand":{"new":[1]},"transactionId""#)
      .replacing(#""sku":"sku""#, with: #""sku":"sku","colour":"red""#)
      .replacing(#""refundAmount":1"#, with: #""refundAmount":1,"why":{}"#)
    #expect(
      try unknownFields(new) == [
        "advancedCommerceInfo.items.colour", "advancedCommerceInfo.items.refunds.why", "brand",
      ])
  }

  @Test func `the JWS of a payload with unknown fields is rebuilt exactly`() throws {
    let authority = TestAuthority.shared
    let jws = try authority.sign(
      bytes: Array(text.replacing("{\"transactionId", with: "{ \"n\":1.50,\"transactionId").utf8))
    #expect(try authority.verifier.transaction(jws).compactJWS == jws)
  }
}
