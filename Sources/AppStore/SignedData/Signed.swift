import Foundation

/// A payload that Apple signed, with the parts to rebuild its JWS.
///
/// Only `SignedDataVerifier` makes one. `AppIdentity` checks whether it is for one of our apps.
public struct Signed<Payload: SignedPayload>: Sendable {
  /// The parsed payload.
  public let payload: Payload
  /// The JSON that Apple wrote, with fields that the type does not have.
  public let payloadBytes: [UInt8]
  /// The signature: 64 bytes.
  public let signature: [UInt8]
  /// The header with its certificates, shared by the payloads of one signer.
  public let chain: VerifiedChain

  /// The JWS, identical to the received text.
  public var compactJWS: String {
    CompactJWS.join(headerSegment: chain.headerSegment, payload: payloadBytes, signature: signature)
  }
}
