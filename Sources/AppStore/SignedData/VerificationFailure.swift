/// Why a JWS or its payload is not accepted.
///
/// Made for an operator: `detail` says what to look at, and never contains the JWS, the payload or anything
/// of a customer's. It may name certificates and apps.
public struct VerificationFailure: Error, Hashable, Sendable {
  /// The closed list of reasons. The raw values are fit for metrics and logs.
  public enum Code: String, Sendable, CaseIterable {
    /// Not three base64url segments, too long, or the header is not what RFC 7515 asks for.
    case malformed
    /// `alg` is not ES256, or the leaf's key is not one for it.
    case unsupportedAlgorithm = "unsupported_algorithm"
    /// The header has `crit`, which asks for extensions that nobody here knows (RFC 7515, section 4.1.11).
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
    /// The chain ends in a root that was not given.
    case untrustedRoot = "untrusted_root"
    /// A certificate was not valid when the payload was signed.
    case certificateNotValidAtSignedDate = "certificate_not_valid_at_signed_date"
    /// The signature is not the leaf's signature of this header and payload.
    case signatureInvalid = "signature_invalid"
    /// The signature is good, but the payload is not what it should be; `field` tells where.
    case malformedPayload = "malformed_payload"
    /// The payload is about another app.
    case wrongApp = "wrong_app"
    /// The payload comes from an environment that the app does not take.
    case wrongEnvironment = "wrong_environment"
    /// A payload within a notification is about another app or environment than the notification.
    case innerMismatch = "inner_mismatch"
  }

  /// What was being verified.
  public enum Subject: String, Sendable, CaseIterable {
    /// A notification's envelope.
    case notification
    /// A transaction, on its own or within a notification.
    case transaction
    /// A renewal info, on its own or within a notification.
    case renewalInfo = "renewal_info"
    /// An app transaction, on its own or within a notification.
    case appTransaction = "app_transaction"
    /// A question about retention messages.
    case realtimeRequest = "realtime_request"
  }

  /// The reason.
  public let code: Code
  /// Where in the payload, as a path of field names, for `malformedPayload`.
  public let field: String?
  /// What an operator should look at.
  public let detail: String
  /// What was being verified; nil if it was some payload of another kind.
  public internal(set) var subject: Subject?
  /// Whether what was handed in as a whole did verify as signed by a trusted chain.
  ///
  /// True, for instance, for a genuine notification about an unknown app, or with an inner JWS that does not
  /// verify. Such a notification deserves to be kept, because the store will not send it for ever.
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
