import FuzzSupport

@testable import AppStore

/// Verifies a JWS: only payloads that the simulated store signed may pass.
enum JWSTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    // `CompactJWS` splits the text; the header is decoded later, so the target decodes it here.
    guard let jws = try? CompactJWS(bytes), Base64.decode(jws.headerSegment, .url) != nil else { return }
    let text = CompactJWS.join(
      headerSegment: Array(jws.headerSegment), payload: jws.payload, signature: jws.signature)
    claim(Array(text.utf8) == bytes, "what was cut and decoded makes the exact text again")
    // A verifier with cached chains and a new verifier must give the same verdict.
    let verdict = verify(text, remembering)
    claim(verify(text, SignedDataVerifier(roots: Genuine.roots)) == verdict, "memory changes no verdict")
    guard verdict == nil || verdict == .certificateNotValidAtSignedDate || verdict == .malformedPayload else {
      return
    }
    claim(Genuine.payloads.contains(jws.payload), "nothing verifies but what was signed")
    claim(Genuine.headers.contains(Array(jws.headerSegment)), "nor under any other header")
  }

  private static let remembering = SignedDataVerifier(roots: Genuine.roots)

  /// The code of the failure to verify the text as a transaction and as a notification; nil if one succeeds.
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
