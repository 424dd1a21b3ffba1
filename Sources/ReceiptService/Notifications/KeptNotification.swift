import AppStore
import FoundationEssentials
import Subscriptions

/// A notification as it is kept: what support looks for in columns, and what a replay needs.
struct KeptNotification: Sendable {
  var uuid: UUID
  var type: String
  var subtype: String?
  var bundleID: String?
  var environment: String?
  var signedAt: Date
  /// Whether `signedAt` is the App Store's word; where none was found in it, it is the time of arrival, which is another
  /// one the next time.
  var isDated = true
  var receivedAt: Date
  var source = Source.webhook
  /// Why it cannot be processed now; `nil` if it can.
  var obstacle: Obstacle?
  /// Which part of it does not verify or cannot be read, and why; the columns `failure` and `failure_detail`.
  var failure: VerificationFailure?
  @Boxed var payload: KeptPayload

  /// How a notification came; the word stands in the column `source`.
  enum Source: String, Sendable {
    /// The App Store posted it.
    case webhook
    /// It never arrived, and was read from the App Store's notification history.
    case history
  }

  /// Why a notification waits for a replay; the word stands in the column `outcome`.
  enum Obstacle: String, Sendable {
    case unknownApp = "unknown_app"
    case unknownEnvironment = "unknown_environment"
    case unknownType = "unknown_type"
    case unknownProduct = "unknown_product"
    case failed
  }
}

extension VerificationFailure.Code {
  /// Failures that other roots, or a later version, can cure. Both come with a start or a reload.
  static let curable: Set<Self> = [.untrustedRoot, .malformedPayload, .unsupportedAlgorithm, .criticalHeader]
}
