import Foundation
import FuzzSupport

@testable import AppStore

/// Compares base64 and base64url with Foundation's base64.
enum Base64Target {
  @Sendable static func check(_ bytes: [UInt8]) {
    for alphabet in [Base64.Alphabet.standard, .url] {
      claim(
        Base64.decode(Base64.encode(bytes, alphabet), alphabet) == bytes,
        "what is encoded is decoded as it was")
      if let decoded = Base64.decode(bytes, alphabet) {
        claim(Base64.encode(decoded, alphabet) == bytes, "an accepted text is the only one of its bytes")
      }
    }
    claim(
      Array(Data(bytes).base64EncodedData()) == Base64.encode(bytes, .standard), "Foundation encodes alike")
    if let decoded = Base64.decode(bytes, .standard) {
      claim(Data(base64Encoded: Data(bytes)).map(Array.init) == decoded, "Foundation decodes alike")
    }
  }
}
