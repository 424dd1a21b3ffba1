import FuzzSupport

@testable import AppStore

/// A JWS from its text to a verified payload: nothing verifies that was not signed.
enum JWSTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    // The header is decoded where it is read, not where the text is cut.
    guard let jws = try? CompactJWS(bytes), Base64.decode(jws.headerSegment, .url) != nil else { return }
    let text = CompactJWS.join(
      headerSegment: Array(jws.headerSegment), payload: jws.payload, signature: jws.signature)
    claim(Array(text.utf8) == bytes, "what was cut and decoded makes the exact text again")
    // One that remembers chains and one that does not come to the same verdict.
    let verdict = verify(text, remembering)
    claim(verify(text, SignedDataVerifier(roots: Genuine.roots)) == verdict, "memory changes no verdict")
    guard verdict == nil || verdict == .certificateNotValidAtSignedDate || verdict == .malformedPayload else {
      return
    }
    claim(Genuine.payloads.contains(jws.payload), "nothing verifies but what was signed")
    claim(Genuine.headers.contains(Array(jws.headerSegment)), "nor under any other header")
  }

  private static let remembering = SignedDataVerifier(roots: Genuine.roots)

  /// The reason why it does not verify as a transaction, or as a notification.
  private static func verify(_ text: String, _ verifier: SignedDataVerifier) -> VerificationFailure.Code? {
    do throws(VerificationFailure) {
      let signed = try verifier.transaction(text)
      claim(signed.compactJWS == text, "what verified makes the exact text again")
      return nil
    } catch {
      claim(error.description.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "a reason is one line")
      do throws(VerificationFailure) {
        _ = try verifier.notification(text)
        return nil
      } catch {
        claim(error.description.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "a reason is one line")
        return error.code
      }
    }
  }
}
