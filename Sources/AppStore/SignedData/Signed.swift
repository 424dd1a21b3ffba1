import FoundationEssentials

/// A payload that Apple signed, with what it takes to show that again.
///
/// Only `SignedDataVerifier` makes one. It says that the payload is Apple's; whether it is for one of our apps
/// is for `AppIdentity` to say.
public struct Signed<Payload: SignedPayload>: Sendable {
  /// The payload as its type knows it.
  public let payload: Payload
  /// The payload as Apple wrote it: JSON, with the fields that the type does not know.
  public let payloadBytes: [UInt8]
  /// The signature: 64 bytes.
  public let signature: [UInt8]
  /// The header with the certificates, shared among the payloads of one signer.
  public let chain: VerifiedChain

  /// The JWS exactly as it came.
  public var compactJWS: String {
    CompactJWS.join(headerSegment: chain.headerSegment, payload: payloadBytes, signature: signature)
  }
}
