import Actions
import AppStore
import Foundation
import Logging
import Postgres
import Subscriptions
import Work

/// The repairs that operators start from the command line.
extension Service {
  /// Reads the App Store's notification history and statuses, and corrects the rows that they contradict. Asks about purchases
  /// with an old proof first.
  ///
  /// - Parameters:
  ///   - since: the start of the history to read; `nil` for the end of the last run.
  ///   - bundleID: the only app; `nil` for all apps with a key.
  /// - Returns: a report for each app and environment; empty if no app has a key.
  package func reconcile(since: Date? = nil, bundleID: String? = nil) async -> [ReconcileReport] {
    do {
      try await oldProofs.run()
    } catch {
      logger.warning("old proofs could not be checked", metadata: ["reason": "\(error)"])
    }
    var reports: [ReconcileReport] = []
    for (app, environment) in reconciliation.subjects where bundleID == nil || app.bundleID == bundleID {
      reports.append(await reconciliation.run(app, environment, since: since))
    }
    return reports
  }

  /// Processes a kept notification again, and records the author and the reason in the same transaction.
  /// - Throws: ``ReplayFailure``, and errors of the database.
  package func replay(_ notificationUUID: UUID, by author: SupportAuthor) async throws -> ReplayResult {
    try await replay.run(notificationUUID, as: .replay(by: author))
  }

  /// Processes waiting notifications again, until one attempt has reached all of them.
  func replayWaiting(only selection: Replay.Selection = .afterStart) async {
    await jobRunner.runUntilSuccess(replayJob(only: selection))
  }

  /// Processes waiting notifications again. At the start, because this version, these roots or this configuration may
  /// accept more than the former ones; every hour, those that failed by an error of receiptd.
  func replayJob(only selection: Replay.Selection) -> BackgroundJob {
    BackgroundJob("replay", every: .seconds(3_600), retryEvery: .seconds(30)) {
      let (waiting, processed) = try await self.replay.runPending(selection)
      guard waiting > 0 else { return }
      self.logger.notice(
        "processed kept notifications again",
        metadata: ["waited": "\(waiting)", "processed": "\(processed)"])
    }
  }
}
