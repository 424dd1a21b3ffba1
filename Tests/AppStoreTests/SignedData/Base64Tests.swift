import Foundation
import Testing

@testable import AppStore

struct Base64Tests {
  @Test(arguments: [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ("foobar", "Zm9vYmFy"),
  ])
  func `base64 encodes and decodes the examples of RFC 4648`(plain: String, text: String) {
    let unpadded = String(text.prefix { $0 != "=" })
    #expect(Base64.string(Array(plain.utf8), .standard) == text)
    #expect(Base64.string(Array(plain.utf8), .url) == unpadded)
    #expect(Base64.decode(text, .standard) == Array(plain.utf8))
    #expect(Base64.decode(unpadded, .url) == Array(plain.utf8))
  }

  @Test func `bytes of every length survive a round trip through base64, which equals Foundation's`() {
    var random = SeededGenerator(state: 1)
    for length in 0..<300 {
      let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
      let text = Data(bytes).base64EncodedString()
      #expect(Base64.string(bytes, .standard) == text)
      #expect(Base64.decode(text, .standard) == bytes)
      #expect(Base64.decode(Base64.encode(bytes, .url), .url) == bytes)
    }
  }

  @Test(arguments: [
    "Zg==", "Zg=", "Zm8=", "Zm9v=", "=", "Zm9vYg\n", " Zm9v", "Zm+v", "Zm/v", "Z", "Zm9vY", "Zm9\u{e9}",
  ])
  func `a text that is not strict base64url is refused`(text: String) {
    #expect(Base64.decode(text, .url) == nil)
  }

  @Test(arguments: [
    "Zg", "Zg=", "Zm8", "Zm9v====", "Zg===", "====", "Zg==Zg==", "Zm-v", "Zm_v", "Zm9v\n", "Zm9v\r\nZm9v",
  ])
  func `a text that is not strict base64 is refused`(text: String) {
    #expect(Base64.decode(text, .standard) == nil)
  }

  @Test func `every accepted base64 text is the encoding of its bytes`() {
    // Every last group of two and of three characters: only those with zero trailing bits may decode.
    let characters = Base64.encode(Array(0...255), .url).prefix(86)
    var accepted = 0
    for first in Set(characters) {
      for second in UInt8.min...UInt8.max {
        for tail in [[first, second], [first, UInt8(ascii: "A"), second]] {
          guard let bytes = Base64.decode(tail, .url) else { continue }
          accepted += 1
          #expect(Base64.encode(bytes, .url) == tail)
        }
      }
    }
    #expect(accepted == Set(characters).count * (4 + 16))
  }

  @Test(arguments: [Base64.Alphabet.standard, .url])
  func `base64 accepts only the alphabet's 64 characters at each place of a group`(
    alphabet: Base64.Alphabet
  ) {
    for place in 0..<8 {
      var accepted = 0
      for character in UInt8.min...UInt8.max {
        var text = Array("TWFuTWFuTWFu".utf8)
        text[place] = character
        guard let bytes = Base64.decode(text, alphabet) else { continue }
        accepted += 1
        #expect(Base64.encode(bytes, alphabet) == text)
      }
      #expect(accepted == 64)
    }
  }
}
