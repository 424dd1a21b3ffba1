/// Why a stored notification could not be replayed.
public enum ReplayFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// No notification with this UUID is stored.
  case notKept
  /// Its customer was erased, and the payload with the customer.
  case erased
  /// The signature is not accepted any more.
  case notVerified(String)

  /// A sentence for the operator.
  public var description: String {
    switch self {
    case .notKept: "no notification with this UUID is stored"
    case .erased: "its customer was erased, so only the impersonal claims are kept"
    case .notVerified(let reason): "\(reason); the signature is not accepted any more"
    }
  }
}
