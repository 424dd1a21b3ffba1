import AppStore
import Subscriptions

extension App {
  /// The identifiers and environments that signed data of this app must have.
  var identity: AppIdentity {
    AppIdentity(
      bundleID: bundleID, appAppleID: appAppleID,
      environments: Set(environments.map { Environment(rawValue: $0.rawValue) }))
  }
}
