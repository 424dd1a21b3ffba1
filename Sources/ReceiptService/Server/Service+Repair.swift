import AppStore
import FoundationEssentials
import Logging
import Postgres
import Subscriptions

/// What an operator has repaired, from the command line.
extension Service {
  /// Reads the App Store's notification history and statuses and repairs what they contradict.
  ///
  /// - Parameters:
  ///   - since: where to begin; `nil` for where the last time ended.
  ///   - bundleID: only this app; `nil` for all that have a key.
  /// - Returns: a report for each app and environment; empty where no app has a key.
  public func reconcile(since: Date? = nil, bundleID: String? = nil) async -> [ReconcileReport] {
    var reports: [ReconcileReport] = []
    for (app, environment) in reconciliation.subjects where bundleID == nil || app.bundleID == bundleID {
      reports.append(await reconciliation.run(app, environment, since: since))
    }
    return reports
  }

  /// Processes a kept notification again, and writes down in the same commit who wanted it.
  /// - Throws: ``ReplayFailure``, and what the database throws.
  public func replay(
    _ notificationUUID: UUID, by author: String, reason: String
  ) async throws -> ReplayResult {
    try await replay.run(notificationUUID, as: .replay(by: author, reason: reason))
  }

  /// Processes notifications that wait at the start: this version, these roots or this configuration may understand more
  /// than those that kept them. What failed by a fault of ours has another turn every hour.
  func replayForever() async {
    await replayWaiting()
    while !Task.isCancelled {
      try? await Task.sleep(for: .seconds(3_600) * Double.random(in: 0.75...1.25))
      if Task.isCancelled { return }
      await replayWaiting(only: .failed)
    }
  }

  /// Processes notifications that wait, until the database has let all have their turn.
  func replayWaiting(only turn: Replay.Turn = .start) async {
    while !Task.isCancelled {
      do {
        let (waiting, processed) = try await replay.runWaiting(only: turn)
        if waiting > 0 {
          logger.notice(
            "processed kept notifications again",
            metadata: ["waited": "\(waiting)", "processed": "\(processed)"])
        }
        return
      } catch {
        logger.warning(
          "kept notifications could not be processed again yet", metadata: ["reason": "\(error)"])
        try? await Task.sleep(for: .seconds(30))
      }
    }
  }
}
