import Foundation
import Logging
import Platform
import Postgres
import Subscriptions
import Work

/// A background job that verifies the claims which old builds of clients write to `profiles`.
///
/// A claim that the App Store confirms binds the purchase to the user, if it has no owner. A false one gives nothing.
struct ClaimVerification: Sendable {
  let pool: PostgresPool
  let modes: ClientWriteModes
  let check: ClaimCheck
  let logKey: LogKey
  let clock: ServiceClock
  let logger: Logger

  private static let batch = 16
  /// The waits before the App Store is asked again about a transaction that it did not know: it may learn of a purchase a
  /// little later than the client.
  private static let unknownWaits: [TimeInterval] = [60, 300, 1_800, 21_600, 86_400]
  /// Outlives the longest lookup.
  private static let lease: TimeInterval = 300

  /// Verifies all claims that are due, every five seconds.
  var job: BackgroundJob {
    BackgroundJob("claims of clients", every: .seconds(5)) { while try await run() == Self.batch {} }
  }

  /// Verifies one batch of due claims.
  /// - Returns: the number of claims that were due.
  @discardableResult
  func run() async throws -> Int {
    // Without a key the claims wait: it may be configured later.
    let apps = modes.apps(writingTo: .profiles).filter { modes.appsWithKey.contains($0.bundleID) }
    guard !apps.isEmpty else { return 0 }
    let claims = try await pool.query(
      ClientWriteRows.claimDue(at: clock.now(), lease: Self.lease, limit: Self.batch)
    ).map(ClientWriteRows.Claim.init)
    try await withThrowingTaskGroup { group in
      for claim in claims { group.addTask { try await verify(claim, in: apps) } }
      try await group.waitForAll()
    }
    return claims.count
  }

  private func verify(_ claim: ClientWriteRows.Claim, in apps: [App]) async throws {
    let decided = try await check.decide(
      claim.transactionID, for: .user(claim.userID), isContested: claim.isContested,
      in: apps.startingWithSeller(of: claim.productID))
    let instant = clock.now()
    if decided.verdict == .failed {
      let next = instant + Backoff.delivery.seconds(afterFailures: claim.attempts)
      _ = try await pool.query(ClientWriteRows.postpone(claim.id, until: next))
      return
    }
    _ = try await pool.query(ClientWriteRows.finish(claim.id, decided, at: instant))
    if decided.verdict == .unknown, (1...Self.unknownWaits.count).contains(claim.attempts) {
      let next = instant + Self.unknownWaits[claim.attempts - 1]
      _ = try await pool.query(ClientWriteRows.postpone(claim.id, until: next))
    }
    if decided.verdict != .bound {
      var metadata: Logger.Metadata = [
        "purchase": "\(claim.transactionID)", "outcome": "\(decided.verdict.rawValue)",
      ]
      metadata["customer"] = logKey.hash(of: claim.userID.uuidString.lowercased()).map { "\($0)" }
      logger.notice(
        "a client wrote a premium status that the App Store does not confirm", metadata: metadata)
    }
  }
}

extension [App] {
  /// The apps, first those that sell a product.
  func startingWithSeller(of productID: String?) -> [App] {
    guard let productID else { return self }
    return filter { $0.product(named: productID) != nil } + filter { $0.product(named: productID) == nil }
  }
}
