import AppStore
import Foundation
import Subscriptions

/// A notification as it is stored: columns for support, and the signed payload for a replay.
struct KeptNotification: Sendable {
  var uuid: UUID
  var type: String
  var subtype: String?
  var bundleID: String?
  var environment: String?
  var signedAt: Date
  var receivedAt: Date
  var source = Source.webhook
  /// Why it cannot be processed now; `nil` if it can.
  var pendingReason: PendingReason?
  /// The part that does not verify or cannot be decoded; the columns `failure` and `failure_detail`.
  var failure: VerificationFailure?
  var payload: KeptPayload

  /// How a notification reached the server; the values of the column `source`.
  enum Source: String, Sendable {
    /// The App Store posted it.
    case webhook
    /// It was missed, and read from the App Store's notification history.
    case history
  }

  /// Why a notification is pending until a replay; values of the column `outcome`.
  enum PendingReason: String, Sendable {
    case unknownApp = "unknown_app"
    case unknownEnvironment = "unknown_environment"
    case unknownType = "unknown_type"
    case unknownProduct = "unknown_product"
    case failed
  }
}

extension VerificationFailure.Code {
  /// Failures that other root certificates or another version can cure. Both need a start or a reload.
  static let curable: Set<Self> = [.untrustedRoot, .malformedPayload, .unsupportedAlgorithm, .criticalHeader]
}
