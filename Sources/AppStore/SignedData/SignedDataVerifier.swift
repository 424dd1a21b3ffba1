import FoundationEssentials

/// Decides whether a JWS is Apple's, and what it says.
///
/// A payload that comes out was signed with ES256 by a leaf for App Store payloads, issued by an intermediate
/// for developer relations, issued by one of the given roots, all of them valid at the payload's signed date.
/// Revocation is not looked up. Whether the payload is for one of our apps is decided by `AppIdentity`.
///
/// All calls are synchronous, may come from any number of threads at once, and take about the time of one
/// P-256 verification for each JWS, or some 1.2 ms more for the first under a header not seen lately.
public final class SignedDataVerifier: Sendable {
  private let validation: ChainValidation
  private let memory: ChainMemory
  private let now: @Sendable () -> ContinuousClock.Instant
  private let onOutcome: (@Sendable (VerificationFailure.Subject, VerificationFailure.Code?) -> Void)?

  /// - Parameters:
  ///   - roots: where a chain may end. To change them, make another verifier: nothing is remembered across.
  ///   - rememberedChains: how many verified headers are remembered. Apple has a handful in use.
  ///   - lifetime: how long a verified header is remembered.
  ///   - now: the clock for `lifetime`.
  ///   - onOutcome: is told what came of each JWS, nil for one that is Apple's; it must not wait.
  public init(
    roots: TrustedRoots, rememberedChains: Int = 64, lifetime: Duration = .seconds(3600),
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    onOutcome: (@Sendable (VerificationFailure.Subject, VerificationFailure.Code?) -> Void)? = nil
  ) {
    validation = ChainValidation(roots: roots)
    memory = ChainMemory(capacity: rememberedChains, lifetime: lifetime)
    self.now = now
    self.onOutcome = onOutcome
  }

  /// A transaction that Apple signed.
  public func transaction(_ jws: String) throws(VerificationFailure) -> Signed<TransactionInfo> {
    try verify(jws, as: .transaction)
  }

  /// A renewal info that Apple signed.
  ///
  /// All that it must have, a transaction has too; one with a `transactionId` is a transaction, which would
  /// otherwise pass for a renewal info that says nothing, and undo one that says something.
  public func renewalInfo(_ jws: String) throws(VerificationFailure) -> Signed<RenewalInfo> {
    let signed: Signed<RenewalInfo> = try verify(jws, as: .renewalInfo)
    guard signed.payload.transactionId == nil else {
      throw .init(
        .malformedPayload, field: "transactionId", "this is a transaction, not a renewal info",
        subject: .renewalInfo, isAuthentic: true)
    }
    return signed
  }

  /// An app transaction that Apple signed.
  public func appTransaction(_ jws: String) throws(VerificationFailure) -> Signed<AppTransaction> {
    try verify(jws, as: .appTransaction)
  }

  /// A question about retention messages that Apple signed.
  public func realtimeRequest(_ jws: String) throws(VerificationFailure) -> Signed<RealtimeRequest> {
    try verify(jws, as: .realtimeRequest)
  }

  /// Verifies and decodes one JWS.
  func verify<Payload: SignedPayload>(
    _ jws: String, as subject: VerificationFailure.Subject
  ) throws(VerificationFailure) -> Signed<Payload> {
    do throws(VerificationFailure) {
      let signed: Signed<Payload> = try verify(CompactJWS(jws))
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
    _ jws: CompactJWS
  ) throws(VerificationFailure) -> Signed<Payload> {
    let now = now()
    let remembered = memory.chain(under: jws.headerSegment, at: now)
    let chain = if let remembered { remembered } else { try chain(under: jws.headerSegment) }
    guard chain.isSigned(payloadSegment: jws.payloadSegment, signature: jws.signature) else {
      throw .init(
        .signatureInvalid, "the signature is not the leaf's: header, payload or signature were changed")
    }
    if remembered == nil { memory.remember(chain, at: now) }
    let payload = try Payload(signedJSON: jws.payload)
    try chain.checkValid(at: payload.signedAt)
    return Signed(
      payload: payload, payloadBytes: jws.payload, signature: jws.signature, chain: chain)
  }

  private func chain(under headerSegment: ArraySlice<UInt8>) throws(VerificationFailure) -> VerifiedChain {
    let header = try JWSHeader(segment: headerSegment)
    let (key, path) = try validation.validate(leaf: header.leaf, intermediate: header.intermediate)
    return VerifiedChain(headerSegment: Array(headerSegment), key: key, path: path)
  }

  /// How many headers are remembered.
  var rememberedCount: Int { memory.count }
}
