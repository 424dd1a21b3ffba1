import AppStore
import Foundation
import Logging
import Platform
import Postgres
import Subscriptions

/// A background job that makes the calls of the table `store_calls`: each until the App Store has taken or refused it, or
/// its deadline has passed.
///
/// A call is leased and not locked, so no transaction is open during a request. A server that dies between the App Store's
/// answer and the commit makes the call once more, with the same body.
struct StoreCallQueue: Sendable {
  let pool: PostgresPool
  let catalog: AppCatalog
  /// Waits longer than a request, because jobs can.
  let apis: [String: AppStoreServerAPI]
  let clock: ServiceClock
  let logger: Logger
  let metrics: ServiceMetrics

  private static let batch = 16
  /// Outlives the longest call.
  private static let lease: TimeInterval = 300
  /// The time between two looks at a call that waits for a consent, a policy or a key.
  private static let wait: TimeInterval = 300
  private static let backoff = Backoff(base: .seconds(5), maximum: .seconds(900), jitter: 0.5)

  /// Makes all due calls, every five seconds.
  var job: BackgroundJob {
    BackgroundJob("calls to the App Store", every: .seconds(5)) { while try await run() == Self.batch {} }
  }

  /// Makes one batch of due calls.
  /// - Returns: the number of calls that were due.
  @discardableResult
  func run() async throws -> Int {
    let instant = clock.now()
    let calls = try await pool.query(
      StoreCallRows.claimDue(at: instant, until: instant + Self.lease, limit: Self.batch)
    ).compactMap(StoreCall.init)
    try await withThrowingTaskGroup { group in
      for call in calls { group.addTask { try await make(call) } }
      try await group.waitForAll()
    }
    return calls.count
  }

  private func make(_ call: StoreCall) async throws {
    // The app may be configured again before the deadline.
    guard let app = catalog[call.bundleID] else { return try await pause(call, "the app is not configured") }
    switch call.kind {
    case .consumption: try await answer(call, of: app)
    case .accountToken: try await tellAccountToken(call)
    }
  }

  /// Looks at a call again after a while, or settles it at its deadline.
  func pause(_ call: StoreCall, _ reason: String) async throws {
    let instant = clock.now()
    if instant >= call.deadline { return try await settle(call, .late, reason) }
    _ = try await pool.query(
      StoreCallRows.pause(call, from: instant, until: instant + Self.wait, because: reason))
  }

  /// Sends a call, and writes down the outcome.
  /// - Parameter actions: the record of the outcome for support.
  func send(
    _ call: StoreCall,
    recording actions: @Sendable (StoreCallOutcome, _ reason: String?) -> Query? = { _, _ in nil },
    _ request: @Sendable (AppStoreServerAPI) async throws(AppStoreServerError) -> Void
  ) async throws {
    guard let api = apis[call.bundleID] else {
      return try await pause(call, "no App Store Connect key is configured for the app")
    }
    do throws(AppStoreServerError) {
      try await request(api)
    } catch {
      let reason = error.reason
      if error.retryDecision == .skip {
        logger.error(
          "the App Store refused a queued call",
          metadata: ["call": "\(call.id)", "kind": "\(call.kind.rawValue)", "reason": "\(reason)"])
        return try await settle(call, .refused, reason, recording: actions)
      }
      metrics.jobs.queuedStoreCall(call, "failed")
      let next = clock.now() + Self.backoff.seconds(afterFailures: call.attempts + 1)
      _ = try await pool.query(StoreCallRows.postpone(call, until: next, because: reason))
      return
    }
    try await settle(call, .sent, nil, recording: actions)
  }

  /// Ends a call.
  func settle(
    _ call: StoreCall, _ outcome: StoreCallOutcome, _ reason: String?,
    recording actions: @Sendable (StoreCallOutcome, _ reason: String?) -> Query? = { _, _ in nil }
  ) async throws {
    let instant = clock.now()
    var queries = [StoreCallRows.settle(call, outcome, because: reason, at: instant)]
    if outcome == .sent { queries.append(StoreCallRows.settleRepetitions(of: call, at: instant)) }
    if let record = actions(outcome, reason) { queries.append(record) }
    // In a task of its own, which a stop of the service does not cancel: otherwise the call would be made again.
    let (pool, statements) = (pool, queries)
    _ = try await Task { try await pool.transaction(pipeline: statements) }.value
    metrics.jobs.queuedStoreCall(call, outcome.rawValue)
  }
}
