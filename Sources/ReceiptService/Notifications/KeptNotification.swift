import AppStore
import FoundationEssentials

/// A notification as it is kept: what support looks for in columns, and what a replay needs.
struct KeptNotification: Sendable {
  var uuid: UUID
  var type: String
  var subtype: String?
  var bundleID: String?
  var environment: String?
  var signedAt: Date
  var receivedAt: Date
  /// Why it cannot be processed now; `nil` if it can.
  var obstacle: Obstacle?
  var payload: KeptPayload

  /// Why a notification waits for a replay; the word stands in the column `outcome`.
  enum Obstacle: String, Sendable {
    case unknownApp = "unknown_app"
    case unknownEnvironment = "unknown_environment"
    case unknownType = "unknown_type"
    case unknownProduct = "unknown_product"
    case failed
  }
}
