import Foundation
import Testing

@testable import Identifiers

@Suite struct UUIDTextTests {
  private let text = "00112233-4455-6677-8899-aabbccddeeff"

  @Test func `a UUID survives a round trip through text in upper and lower case`() {
    for _ in 0..<1_000 {
      let uuid = UUID()
      #expect(UUID(rfc9562: uuid.uuidString) == uuid)
      #expect(UUID(rfc9562: uuid.uuidString.lowercased()) == uuid)
    }
    #expect(UUID(rfc9562: "00000000-0000-0000-0000-000000000000")?.uuid.15 == 0)
  }

  @Test func `a UUID text with a wrong character at any place is refused`() {
    for position in 0..<36 {
      var bytes = Array(text.utf8)
      let isHyphen = [8, 13, 18, 23].contains(position)
      for byte in UInt8(0)..<128 {
        bytes[position] = byte
        let isFit =
          isHyphen
          ? byte == UInt8(ascii: "-")
          : Character(Unicode.Scalar(byte)).isHexDigit
        #expect((UUID(rfc9562: String(decoding: bytes, as: UTF8.self)) != nil) == isFit)
      }
    }
  }

  @Test(arguments: [
    "", "0", "00112233-4455-6677-8899-aabbccddeef", "00112233-4455-6677-8899-aabbccddeefff",
    "001122334455-6677-8899-aabbccddeeff--", "{0112233-4455-6677-8899-aabbccddeef}",
    " 0112233-4455-6677-8899-aabbccddeeff", "-1112233-4455-6677-8899-aabbccddeeff",
    "0x112233-4455-6677-8899-aabbccddeeff", "００112233-4455-6677-8899-aabbccddeeff",
    "00112233-4455-6677-8899-aabbccddée",
  ])
  func `a text in another form than a UUID is refused`(text: String) {
    #expect(UUID(rfc9562: text) == nil)
  }
}
