import AppStore
import Crypto
import FoundationEssentials

extension KeptNotification {
  /// A notification whose envelope carries the App Store's signature, but in which something is not as we
  /// know it: kept whole, under whatever names can be made out, until a newer version can read it.
  ///
  /// - Returns: `nil` for what is no notification at all.
  init?(unreadable signedPayload: String, receivedAt: Date, source: Source) {
    guard let jws = try? CompactJWS(signedPayload),
      let text = String(validating: jws.payload, as: UTF8.self), !text.utf8.contains(0)
    else { return nil }
    let claims = (try? JSONDecoder().decode([String: JSONValue].self, from: Data(jws.payload))) ?? [:]
    // Everything else that the App Store signs (other developers' transactions, say) is no notification.
    guard claims["notificationUUID"] != nil || claims["notificationType"] != nil else { return nil }
    var data: [String: JSONValue] = [:]
    if case .object(let members)? = claims["data"] { data = members }
    let header = Array(jws.headerSegment)
    let signedAt = claims["signedDate"]?.date
    self.init(
      uuid: UUID(notificationUUID: claims["notificationUUID"]?.text ?? text),
      type: claims["notificationType"]?.text ?? "unreadable", subtype: claims["subtype"]?.text,
      bundleID: data["bundleId"]?.text, environment: data["environment"]?.text,
      signedAt: signedAt ?? receivedAt, isDated: signedAt != nil, receivedAt: receivedAt,
      source: source, obstacle: .failed,
      payload: KeptPayload(
        envelope: KeptPayload.Part(
          headerFingerprint: Array(SHA256.hash(data: header)), headerSegment: header,
          claims: jws.payload, signature: jws.signature),
        transaction: nil, renewalInfo: nil))
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
