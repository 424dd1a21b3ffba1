import FoundationEssentials
import FuzzSupport

@testable import AppStore

/// The JSON in a JWS whose signature is good. Whoever holds the key is trusted, and even so nothing may end the
/// process: what cannot be read must be refused.
enum PayloadTarget {
  @Sendable static func check(_ bytes: [UInt8]) {
    check(bytes, as: TransactionInfo.self)
    check(bytes, as: RenewalInfo.self)
    check(bytes, as: NotificationPayload.self)
    check(bytes, as: AppTransaction.self)
    check(bytes, as: RealtimeRequest.self)
  }

  private static func check<Payload: SignedPayload>(_ bytes: [UInt8], as type: Payload.Type) {
    let payload: Payload
    do throws(VerificationFailure) {
      payload = try Payload(signedJSON: bytes)
    } catch {
      return claim(error.code == .malformedPayload && error.isAuthentic, "the reason is the payload")
    }
    let years = Date.wireMilliseconds
    claim(payload.signedAt.millisecondsSince1970.map(years.contains) == true, "a date that can be stored")
    guard let written = try? JSONEncoder().encode(payload) else {
      return claim(false, "what was read can be written")
    }
    claim((try? Payload(signedJSON: Array(written))) == payload, "what is written is read as it was")
  }
}
