/// Why a stored notification could not be replayed.
public enum ReplayFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// No notification with this UUID is stored.
  case notKept
  /// The signature is not accepted any more.
  case notVerified(String)

  /// A sentence for the operator.
  public var description: String {
    switch self {
    case .notKept: "no notification with this UUID is stored"
    case .notVerified(let reason): "\(reason); the signature is not accepted any more"
    }
  }
}
