/// The reason why a JWS or its payload is refused.
///
/// `detail` is for an operator. It may name certificates and apps, and never contains the JWS, the payload or customer
/// data.
public struct VerificationFailure: Error, Hashable, Sendable {
  /// The closed list of reasons. The raw values appear in metrics and logs.
  public enum Code: String, Sendable, CaseIterable {
    /// The text is not three base64url segments, is too long, or its header violates RFC 7515.
    case malformed
    /// `alg` is not ES256, or the leaf has another kind of key.
    case unsupportedAlgorithm = "unsupported_algorithm"
    /// The header has `crit`, which requires extensions that are not implemented (RFC 7515, section 4.1.11).
    case criticalHeader = "critical_header"
    /// `x5c` does not hold exactly three certificates.
    case certificateCount = "certificate_count"
    /// A certificate is not base64 or not an X.509 certificate.
    case certificateMalformed = "certificate_malformed"
    /// The leaf was not issued for signing receipts and notifications (1.2.840.113635.100.6.11.1).
    case leafMarkerMissing = "leaf_marker_missing"
    /// The intermediate is not Apple's for developer relations (1.2.840.113635.100.6.2.1).
    case intermediateMarkerMissing = "intermediate_marker_missing"
    /// The certificates do not chain: a signature, name, constraint or algorithm is wrong.
    case brokenChain = "broken_chain"
    /// The chain does not end in a trusted root.
    case untrustedRoot = "untrusted_root"
    /// A certificate was not valid when the payload was signed.
    case certificateNotValidAtSignedDate = "certificate_not_valid_at_signed_date"
    /// The signature is not the leaf's signature of this header and payload.
    case signatureInvalid = "signature_invalid"
    /// The signature verified, but the payload is malformed; `field` names the place.
    case malformedPayload = "malformed_payload"
    /// The payload is for another app.
    case wrongApp = "wrong_app"
    /// The payload comes from an environment that the app does not accept.
    case wrongEnvironment = "wrong_environment"
    /// A payload inside a notification is of another app or environment than the notification.
    case innerMismatch = "inner_mismatch"
  }

  /// The kind of payload that was verified.
  public enum Subject: String, Sendable, CaseIterable {
    /// A notification's envelope.
    case notification
    /// A transaction, alone or inside a notification.
    case transaction
    /// A renewal info, alone or inside a notification.
    case renewalInfo = "renewal_info"
    /// An app transaction, alone or inside a notification.
    case appTransaction = "app_transaction"
  }

  /// The reason.
  public let code: Code
  /// The path of field names, for `malformedPayload`.
  public let field: String?
  /// The description for an operator.
  public let detail: String
  /// The kind of payload; nil before it is known.
  public internal(set) var subject: Subject?
  /// Whether the outer JWS verified as signed by a trusted chain.
  ///
  /// True, for instance, for a genuine notification about an unknown app, or with an inner JWS that does not verify.
  /// Such a notification is kept, because the store stops sending it after some days.
  public internal(set) var isAuthentic: Bool

  init(
    _ code: Code, field: String? = nil, _ detail: String, subject: Subject? = nil, isAuthentic: Bool = false
  ) {
    self.code = code
    self.field = field
    self.detail = detail
    self.subject = subject
    self.isAuthentic = isAuthentic
  }
}

extension VerificationFailure: CustomStringConvertible {
  /// Subject, code and detail in one line.
  public var description: String {
    [subject?.rawValue, code.rawValue, field].compactMap(\.self).joined(separator: " ") + ": " + detail
  }
}
