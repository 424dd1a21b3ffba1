import Actions
import AppStore
import Configuration
import Customers
import Deliveries
import Foundation
import Ledger
import Logging
import Numbers
import Postgres
import Proofs
import Subscriptions
import Support
import Text
import Work

/// The repairs that operators start from the command line.
extension Service {
  /// Reads the App Store's notification history and statuses, and corrects the rows that they contradict. Asks about
  /// purchases with an old proof first.
  ///
  /// - Parameters:
  ///   - since: the start of the history to read; `nil` for the end of the last run.
  ///   - bundleID: the only app; `nil` for all apps with a key.
  /// - Returns: a report for each app and environment; empty if no app has a key.
  package func reconcile(since: Date? = nil, bundleID: String? = nil) async -> [ReconcileReport] {
    do {
      try await proofs.oldProofs.run()
    } catch {
      logger.warning("old proofs could not be checked", metadata: ["reason": "\(error)"])
    }
    var reports: [ReconcileReport] = []
    for (app, environment) in reconciliation.subjects where bundleID == nil || app.bundleID == bundleID {
      reports.append(await reconciliation.run(app, environment, since: since))
    }
    return reports
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

extension Service {
  /// Grants the grandfather tier to all users whose row in the app's own table is older than the rule's date. Repeated
  /// and concurrent runs are safe: each user gets one grant.
  ///
  /// - Parameters:
  ///   - bundleID: only this app; `nil` for all apps with the rule.
  ///   - isDryRun: only count.
  /// - Returns: a report for each app with the rule.
  /// - Throws: errors of the database; grants made before the error stay.
  package func grandfather(
    bundleID: String? = nil, isDryRun: Bool
  ) async throws -> [GrandfatherReport] {
    var reports: [GrandfatherReport] = []
    for app in catalog.apps where bundleID == nil || app.bundleID == bundleID {
      guard let rule = app.grandfather else { continue }
      reports.append(try await customers.grandfathering.run(rule, of: app, isDryRun: isDryRun))
    }
    return reports
  }

  /// Reads the signing keys of entitlement tokens and creates the first one if there is none.
  ///
  /// Call it before the first request, so that its response has a token. While the database is unavailable, responses
  /// have none.
  package func loadEntitlementKeys() async {
    await customers.entitlementKeyRefresh?.run()
  }
}

extension Service {
  /// Counts days again, for `receiptd kpi`.
  ///
  /// - Parameter report: called after each day, with the number of its rows.
  /// - Throws: ``SupportRefusal`` for a range that ends before it begins or in the future, and errors of the database.
  ///   The days before an error are counted.
  package func countKPIs(from first: Day, through last: Day, report: (Day, Int) -> Void) async throws {
    guard first <= last else { throw SupportRefusal.invalid("the last day is before the first") }
    guard last <= Day(of: clock.now()) else { throw SupportRefusal.invalid("\(last) is in the future") }
    var day = first
    while day <= last {
      report(day, try await numbers.counter.count(day))
      day = day.advanced(by: 1)
    }
  }
}

extension Service {
  /// Refuses data of Xcode beside real purchases; see ``XcodeData/check(_:in:)``.
  package func checkXcode() async throws { try await XcodeData.check(catalog, in: pool) }

  /// Compares what the customers have with what they would have under another configuration, for `receiptd what-if`.
  ///
  /// See ``WhatIf/run(bundleID:at:progress:found:)`` for parameters and errors.
  package func compare(
    with other: AppCatalog, bundleID: String?, at instant: Date?, progress: (App, Int) -> Void,
    found: (WhatIf.Finding) throws -> Void
  ) async throws -> [WhatIfReport] {
    try await WhatIf(current: catalog, other: other, pool: pool).run(
      bundleID: bundleID, at: instant ?? clock.now(), progress: progress, found: found)
  }
}
