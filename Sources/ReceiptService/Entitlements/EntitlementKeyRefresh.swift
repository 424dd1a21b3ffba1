import Foundation
import Logging
import Work

/// A background job that reads the signing keys every minute, so that a server knows a new key long before it signs.
struct EntitlementKeyRefresh: Sendable {
  let store: EntitlementKeyStore
  let signer: EntitlementSigner
  /// The longest lifetime of a token of any app, in seconds.
  let lifetime: TimeInterval
  let clock: ServiceClock
  let logger: Logger

  /// Reads the keys every minute. Answers have no token until the first keys are read, so a failure is retried soon.
  var job: BackgroundJob {
    BackgroundJob("entitlement key refresh", every: .seconds(60), retryEvery: .seconds(5)) {
      try await runOnce()
    }
  }

  /// Reads the keys once and logs a failure. The known keys stay in use where they cannot be read.
  func run() async {
    do {
      try await runOnce()
    } catch {
      logger.warning(
        "the signing keys of entitlement tokens cannot be read", metadata: ["reason": "\(error)"])
    }
  }

  private func runOnce() async throws {
    let known = signer.kid(at: clock.now())
    signer.adopt(EntitlementKeyRing(try await store.load(), lifetime: lifetime))
    guard let known, let kid = signer.kid(at: clock.now()), kid != known else { return }
    logger.info("entitlement tokens are signed with another key", metadata: ["kid": "\(kid)"])
  }
}
