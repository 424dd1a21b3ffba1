import AppStore
import HTTP

/// The result of a replay of a stored notification.
public struct ReplayResult: Hashable, Sendable {
  /// The value of the column `outcome`.
  public var outcome: String
  /// Whether it was processed; otherwise it is still pending.
  public var isProcessed: Bool
  /// Why it still fails, if a part does not verify or cannot be decoded.
  public var failure: Failure?

  /// Why signed data is not accepted.
  public struct Failure: Hashable, Sendable, CustomStringConvertible {
    /// The error code that a client gets for the same failure.
    public var code: String
    /// The part and its failure, for an operator.
    public var detail: String

    init(_ failure: VerificationFailure) {
      code = Problem(clientProof: failure).code.rawValue
      detail = failure.description
    }

    /// Both in one line.
    public var description: String { "\(code): \(detail)" }
  }
}
