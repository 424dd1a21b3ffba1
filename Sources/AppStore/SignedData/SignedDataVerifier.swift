import Foundation

/// Verifies a JWS signed by the App Store and parses its payload.
///
/// A returned payload was signed with ES256 by a leaf for App Store payloads, issued by an intermediate for developer
/// relations, issued by a trusted root, all valid at the payload's signed date. Revocation is not checked.
/// `AppIdentity` checks whether the payload is for one of our apps.
///
/// All calls are synchronous and thread-safe. Each JWS and each notification costs about one P-256 verification; the
/// first one under a header that is not cached costs about 1.2 ms more.
public final class SignedDataVerifier: Sendable {
  private let validation: ChainValidation
  private let xcode: XcodeCertificates
  private let cache: ChainCache
  private let now: @Sendable () -> ContinuousClock.Instant
  private let onOutcome: (@Sendable (VerificationFailure.Subject, VerificationFailure.Code?) -> Void)?

  /// - Parameters:
  ///   - roots: the trusted roots. Other roots need another verifier.
  ///   - xcode: the certificates of StoreKit tests in Xcode, for development.
  ///   - cachedChains: the bound of the chain cache. Apple uses a handful of headers.
  ///   - lifetime: the lifetime of a cached chain.
  ///   - now: the clock for `lifetime`.
  ///   - onOutcome: receives the outcome of each JWS, nil for a valid one; it must not block.
  public init(
    roots: TrustedRoots, xcode: XcodeCertificates = .none, cachedChains: Int = 64,
    lifetime: Duration = .seconds(3600),
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    onOutcome: (@Sendable (VerificationFailure.Subject, VerificationFailure.Code?) -> Void)? = nil
  ) {
    validation = ChainValidation(roots: roots)
    self.xcode = xcode
    cache = ChainCache(capacity: cachedChains, lifetime: lifetime)
    self.now = now
    self.onOutcome = onOutcome
  }

  /// Verifies a signed transaction.
  public func transaction(_ jws: String) throws(VerificationFailure) -> Signed<TransactionInfo> {
    try verify(jws, as: .transaction, inside: nil)
  }

  /// Verifies a signed renewal info.
  ///
  /// A transaction has all required fields of a renewal info. It is refused by its `transactionId`: it would pass as an
  /// empty renewal info and overwrite a real one.
  public func renewalInfo(_ jws: String) throws(VerificationFailure) -> Signed<RenewalInfo> {
    try renewalInfo(jws, inside: nil)
  }

  func renewalInfo(
    _ jws: String, inside envelope: VerifiedChain?
  ) throws(VerificationFailure) -> Signed<RenewalInfo> {
    let signed: Signed<RenewalInfo> = try verify(jws, as: .renewalInfo, inside: envelope)
    guard signed.payload.transactionId == nil else {
      throw .init(
        .malformedPayload, field: "transactionId", "this is a transaction, not a renewal info",
        subject: .renewalInfo, isAuthentic: true)
    }
    return signed
  }

  /// Verifies a signed app transaction.
  public func appTransaction(_ jws: String) throws(VerificationFailure) -> Signed<AppTransaction> {
    try verify(jws, as: .appTransaction, inside: nil)
  }

  /// Verifies and decodes one JWS.
  ///
  /// - Parameter envelope: the chain of the verified notification that contains the JWS; nil for a JWS that stands
  ///   alone. The notification's signature covers every byte of the JWS, so under the same header the JWS's own
  ///   signature proves nothing more, and is not checked.
  func verify<Payload: SignedPayload>(
    _ jws: String, as subject: VerificationFailure.Subject, inside envelope: VerifiedChain?
  ) throws(VerificationFailure) -> Signed<Payload> {
    do throws(VerificationFailure) {
      let signed: Signed<Payload> = try verify(CompactJWS(jws), inside: envelope)
      onOutcome?(subject, nil)
      return signed
    } catch {
      var failure = error
      failure.subject = subject
      onOutcome?(subject, failure.code)
      throw failure
    }
  }

  private func verify<Payload: SignedPayload>(
    _ jws: CompactJWS, inside envelope: VerifiedChain?
  ) throws(VerificationFailure) -> Signed<Payload> {
    let chain: VerifiedChain
    if let envelope, envelope.signs(under: jws.headerSegment), jws.signature.count == 64 {
      chain = envelope
    } else {
      chain = try verifiedChain(of: jws)
    }
    var payload = try Payload(
      signedJSON: chain.isOfXcode ? XcodePayload.wholeMilliseconds(jws.payload) : jws.payload)
    guard payload.isOfXcode == chain.isOfXcode else {
      guard chain.isOfXcode else {
        throw .init(
          .wrongEnvironment,
          "the payload says the environment Xcode, and its certificate is not one of Xcode",
          isAuthentic: true)
      }
      throw .init(
        .untrustedRoot,
        "a certificate of Xcode signs nothing but transactions, renewal infos and app transactions of the environment Xcode"
      )
    }
    try chain.checkValid(at: payload.signedAt)
    if chain.isOfXcode { payload.takeXcodeIDs() }
    return Signed(
      payload: payload, payloadBytes: jws.payload, signature: jws.signature, chain: chain)
  }

  /// The chain under the header of a JWS, once the JWS's signature is verified.
  private func verifiedChain(of jws: CompactJWS) throws(VerificationFailure) -> VerifiedChain {
    let now = now()
    let cached = cache.chain(under: jws.headerSegment, at: now)
    let chain = if let cached { cached } else { try chain(under: jws.headerSegment) }
    guard chain.isSigned(payloadSegment: jws.payloadSegment, signature: jws.signature) else {
      throw .init(
        .signatureInvalid, "the signature is not the leaf's: header, payload or signature were changed")
    }
    if cached == nil { cache.insert(chain, at: now) }
    return chain
  }

  private func chain(under headerSegment: ArraySlice<UInt8>) throws(VerificationFailure) -> VerifiedChain {
    let header = try JWSHeader(segment: headerSegment)
    guard let intermediate = header.intermediate else {
      guard let chain = xcode.chain(of: header.leaf, headerSegment: headerSegment) else {
        throw .init(
          .certificateCount,
          "x5c holds 1 certificate instead of 3; StoreKit testing in Xcode signs with one, and this one is not in xcode.certificates"
        )
      }
      return chain
    }
    let (key, path) = try validation.validate(leaf: header.leaf, intermediate: intermediate)
    return VerifiedChain(headerSegment: Array(headerSegment), key: key, path: path)
  }

  /// The number of cached chains.
  var cachedCount: Int { cache.count }
}

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
