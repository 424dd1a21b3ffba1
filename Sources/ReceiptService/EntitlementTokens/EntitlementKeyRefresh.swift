import FoundationEssentials
import Logging

/// Looks at the database's keys every minute, so that a running server notices a new one long before it signs.
struct EntitlementKeyRefresh: Sendable {
  let store: EntitlementKeyStore
  let signer: EntitlementSigner
  /// The longest life of a token of any app, in seconds.
  let lifetime: TimeInterval
  let clock: ServiceClock
  let logger: Logger

  private static let pause = Duration.seconds(60)
  /// Until the first keys are there, answers go without a token.
  private static let pauseWithoutKeys = Duration.seconds(5)

  /// Runs until the task is cancelled.
  func runForever() async {
    while !Task.isCancelled {
      await run()
      let pause = signer.kid(at: clock.now()) == nil ? Self.pauseWithoutKeys : Self.pause
      try? await Task.sleep(for: pause * Double.random(in: 0.75...1.25))
    }
  }

  /// Reads the keys once. Where they cannot be read, those that are known go on.
  func run() async {
    do {
      let known = signer.kid(at: clock.now())
      signer.adopt(EntitlementKeyRing(try await store.load(), lifetime: lifetime))
      guard let kid = signer.kid(at: clock.now()), kid != known else { return }
      logger.info("signs entitlement tokens", metadata: ["kid": "\(kid)"])
    } catch {
      logger.warning("the keys of entitlement tokens cannot be read", metadata: ["reason": "\(error)"])
    }
  }
}
