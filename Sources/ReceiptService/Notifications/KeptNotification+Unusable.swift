import AppStore
import Crypto
import Foundation
import JSON

extension KeptNotification {
  /// Creates a row for a notification with a valid envelope signature that cannot be decoded, or has a part that does not
  /// verify. It is stored whole, with the values that can be decoded.
  ///
  /// The inner parts stay in the envelope: unverified headers must not enter `jws_headers`, which has no deletion.
  ///
  /// - Returns: `nil` for signed data that is not a notification.
  init?(
    unusable signedPayload: String, because failure: VerificationFailure, receivedAt: Date, source: Source
  ) {
    guard let jws = try? CompactJWS(signedPayload),
      let text = String(validating: jws.payload, as: UTF8.self), !text.utf8.contains(0)
    else { return nil }
    let claims = (try? JSONDecoder().decode([String: JSONValue].self, from: Data(jws.payload))) ?? [:]
    // The App Store signs other data too, such as other developers' transactions.
    guard claims["notificationUUID"] != nil || claims["notificationType"] != nil else { return nil }
    let data = claims.firstObject(of: ["data", "summary", "appData", "externalPurchaseToken"])
    let header = Array(jws.headerSegment)
    let signedAt = claims["signedDate"]?.date
    self.init(
      uuid: UUID(notificationUUID: claims["notificationUUID"]?.text ?? text),
      type: claims["notificationType"]?.text ?? "unreadable", subtype: claims["subtype"]?.text,
      bundleID: data["bundleId"]?.text, environment: data["environment"]?.text,
      signedAt: signedAt ?? receivedAt, receivedAt: receivedAt,
      source: source, pendingReason: .failed, failure: failure,
      payload: KeptPayload(
        envelope: KeptPayload.Part(
          headerFingerprint: Array(SHA256.hash(data: header)), headerSegment: header,
          claims: jws.payload, signature: jws.signature),
        transaction: nil, renewalInfo: nil))
  }
}

extension [String: JSONValue] {
  fileprivate func firstObject(of names: [String]) -> [String: JSONValue] {
    for name in names { if case .object(let members)? = self[name] { return members } }
    return [:]
  }
}

extension JSONValue {
  fileprivate var text: String? {
    if case .string(let text) = self { text.storable } else { nil }
  }

  /// Milliseconds since 1970, if PostgreSQL can hold them.
  fileprivate var date: Date? {
    guard case .integer(let milliseconds) = self, (0..<253_402_300_800_000).contains(milliseconds) else {
      return nil
    }
    return Date(timeIntervalSince1970: Double(milliseconds) / 1000)
  }
}
