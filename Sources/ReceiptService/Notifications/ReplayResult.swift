import AppStore
import HTTP
import Subscriptions

/// The result of a replay of a stored notification.
public struct ReplayResult: Hashable, Sendable {
  /// The value of the column `outcome`.
  public var outcome: String
  /// Whether it was processed; otherwise it is still pending.
  public var isProcessed: Bool
  /// Why it still waits; `nil` if it was processed.
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

    /// The failure of a notification whose parts are genuine, and which this configuration or version does not serve.
    /// - Parameter outcome: a value of ``KeptNotification/PendingReason``.
    init?(_ outcome: String?, of entry: LedgerEntry) {
      guard let notification = entry.notification,
        let reason = outcome.flatMap(KeptNotification.PendingReason.init)
      else { return nil }
      let app = notification.bundleID ?? "of no bundle id"
      switch reason {
      case .unknownApp:
        code = "wrong_app"
        detail = "the configuration has no app \(app); add it and reload"
      case .unknownEnvironment:
        code = "wrong_environment"
        detail = "'environments' of \(app) does not have \(notification.environment ?? "this environment")"
      case .unknownProduct:
        let products = Set(entry.transactions.map(\.fact.productID)).sorted().joined(separator: ", ")
        code = "unknown_product"
        detail = "the catalog of \(app) has no product \(products); add it and reload"
      case .unknownType:
        code = "invalid_request"
        detail = "this version of receiptd does not know the type \(notification.type); a newer one may"
      case .failed:
        code = "internal"
        detail = "receiptd could not write it; the log has the cause"
      }
    }

    /// Both in one line.
    public var description: String { "\(code): \(detail)" }
  }
}
