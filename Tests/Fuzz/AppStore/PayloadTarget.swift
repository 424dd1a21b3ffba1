import Foundation
import FuzzSupport
import Identifiers
import JSON

@testable import AppStore

/// Reads the JSON of a JWS with a valid signature. Its signer is trusted, but malformed JSON must be refused without a
/// crash.
enum PayloadTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    check(bytes, as: TransactionInfo.self)
    check(bytes, as: RenewalInfo.self)
    check(bytes, as: NotificationPayload.self)
    check(bytes, as: AppTransaction.self)
  }

  private static func check<Payload: SignedPayload>(_ bytes: [UInt8], as type: Payload.Type) {
    let decoded = try? JSONDecoder().decode(Payload.self, from: Data(bytes))
    let payload: Payload
    do throws(VerificationFailure) {
      payload = try Payload(signedJSON: bytes)
    } catch {
      claim(error.code == .malformedPayload && error.isAuthentic, "the reason is the payload")
      let isJSON = (try? JSONReader.check(bytes, maximumDepth: 512)) != nil
      return claim(
        decoded == nil || !isJSON || mayDiffer(bytes) || hasStrangeUUID(bytes),
        "what Foundation reads is read, if it is JSON")
    }
    claim(decoded == payload || mayDiffer(bytes), "what is read is what Foundation reads")
    let years = Date.wireMilliseconds
    claim(payload.signedAt.millisecondsSince1970.map(years.contains) == true, "a date that can be stored")
    guard let written = try? JSONEncoder().encode(payload) else {
      return claim(false, "what was read can be written")
    }
    claim((try? Payload(signedJSON: Array(written))) == payload, "what is written is read as it was")
  }

  /// Whether a string of the payload is a UUID only for scanf(3), which Foundation uses.
  private static func hasStrangeUUID(_ bytes: [UInt8]) -> Bool {
    bytes.indices.dropLast(37).contains { start in
      guard bytes[start] == UInt8(ascii: "\""), bytes[start + 37] == UInt8(ascii: "\"") else { return false }
      let text = String(decoding: bytes[(start + 1)...(start + 36)], as: UTF8.self)
      return UUID(uuidString: text) != nil && UUID(rfc9562: text) == nil
    }
  }

  /// Whether Foundation may read the payload differently: it rounds long numbers with a fraction or an exponent, and it
  /// equates canonically equivalent member names (U+212A and K).
  private static func mayDiffer(_ bytes: [UInt8]) -> Bool {
    let text = String(decoding: bytes, as: UTF8.self).lowercased()
    let isLong = text.utf8.split(whereSeparator: { !(0x30...0x39).contains($0) && $0 != 0x2E }).contains {
      $0.count > 15
    }
    let hasExponent = ["e+", "e-"].contains(where: text.contains) || text.contains(/[0-9]e[0-9]{2}/)
    return isLong && text.contains(/[0-9][.e]/) || hasExponent || text.contains("\\u")
      || bytes.contains { $0 >= 0x80 }
  }
}
