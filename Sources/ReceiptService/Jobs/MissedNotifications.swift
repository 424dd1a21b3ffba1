import AppStore
import Foundation
import Ledger
import Logging
import Requests

/// Reads the App Store's notification history and processes the notifications that never arrived.
struct MissedNotifications: Sendable {
  let intake: NotificationIntake
  let ledger: LedgerWriter
  let logger: Logger

  /// The age of the oldest notification in Apple's history, less the longest time of a request.
  static func historyLength(in environment: Environment) -> TimeInterval {
    TimeInterval((environment == .production ? 180 : 30) * 86_400 - 600)
  }

  /// The history is read in windows of this length. A failure loses the progress of one window only.
  static let window: TimeInterval = 7 * 86_400

  /// The App Store refuses a window whose start and end are the same millisecond. In seconds.
  static let shortestWindow: TimeInterval = 1

  /// The end of the window that begins at `start`. A rest that is too short for a window of its own belongs to this
  /// one.
  static func windowEnd(from start: Date, until last: Date) -> Date {
    let end = start.addingTimeInterval(window)
    return last.timeIntervalSince(end) < shortestWindow ? last : end
  }

  /// The number of consecutive empty pages after which the history is considered endless.
  private static let maximumEmptyPages = 32

  /// Reads one window, page by page.
  /// - Returns: whether every notification of the window was processed.
  func read(
    _ api: AppStoreServerAPI, _ environment: Environment, from start: Date, until end: Date,
    into report: inout ReconcileReport
  ) async throws -> Bool {
    let unfinished = report.notificationsRefused + report.notificationsFailed
    let request = NotificationHistoryRequest(startDate: start, endDate: end)
    var token: String?
    // A repeated token would repeat the same pages without end.
    var seen: Set<String> = []
    var emptyPages = 0
    while true {
      let page = try await api.notificationHistory(request, paginationToken: token, in: environment)
      let signedPayloads = (page.notificationHistory ?? []).compactMap(\.signedPayload)
      try await process(signedPayloads, of: environment, into: &report)
      guard page.hasMore == true else {
        return report.notificationsRefused + report.notificationsFailed == unfinished
      }
      emptyPages = signedPayloads.isEmpty ? emptyPages + 1 : 0
      guard emptyPages < Self.maximumEmptyPages, let next = page.paginationToken, seen.insert(next).inserted
      else { throw ReconcileFailure.endlessHistory }
      token = next
    }
  }

  /// The result of one entry. It is a class because a task group of a release build (Swift 6.3.1) returned wrong
  /// indices in tuples with a receipt; `scripts/harness/restore-drill` finds that.
  private final class Outcome: Sendable {
    let index: Int
    let result: Result<LedgerReceipt, any Error>

    init(index: Int, result: Result<LedgerReceipt, any Error>) {
      self.index = index
      self.result = result
    }
  }

  private func process(
    _ signedPayloads: [String], of environment: Environment, into report: inout ReconcileReport
  ) async throws {
    report.notificationsRead += signedPayloads.count
    var entries: [LedgerEntry] = []
    for signedPayload in signedPayloads {
      let refused: String
      do throws(VerificationFailure) {
        let entry = try intake.entry(for: signedPayload, from: .history)
        // Some notifications name no environment. One with an unknown environment is stored, and waits for a replay.
        let others = [Environment.production, .sandbox].filter { $0 != environment }.map(\.rawValue)
        if !others.contains(entry.notification?.environment ?? "") {
          entries.append(entry)
          continue
        }
        refused = "it is of another environment"
      } catch {
        refused = "\(error)"
      }
      report.notificationsRefused += 1
      logger.error(
        "a notification of the App Store's history was refused", metadata: ["reason": "\(refused)"])
    }
    report.firstSignedAt =
      ([report.firstSignedAt] + entries.map { $0.notification?.signedAt }).compactMap(\.self).min()
    let outcomes = await withTaskGroup(of: Outcome.self) { group in
      for (index, entry) in entries.enumerated() {
        group.addTask {
          do { return Outcome(index: index, result: .success(try await ledger.record(entry))) } catch {
            return Outcome(index: index, result: .failure(error))
          }
        }
      }
      return await group.reduce(into: [Outcome]()) { $0.append($1) }
    }
    for outcome in outcomes.sorted(by: { $0.index < $1.index }) {
      let index = outcome.index
      let receipt: LedgerReceipt
      do {
        receipt = try outcome.result.get()
      } catch  where !isDatabaseUnavailable(error) && !Task.isCancelled {
        report.notificationsFailed += 1
        logger.error(
          "a notification of the App Store's history could not be written",
          metadata: [
            "notification": "\(entries[index].notification?.uuid.uuidString.lowercased() ?? "")",
            "reason": "\(error)",
          ])
        continue
      }
      if receipt.isDuplicate { continue }
      report.notificationsMissed += 1
      if !receipt.isProcessed { report.notificationsWaiting += 1 }
      let notification = entries[index].notification
      let cause = [notification?.type, notification?.subtype].compactMap(\.self).joined(separator: " ")
      report.addRepair(receipt, cause: cause, at: entries[index].instant)
    }
  }
}

/// Reasons to stop reconciling other than an error of the App Store.
enum ReconcileFailure: Error, CustomStringConvertible {
  case endlessHistory
  case beginsInTheFuture

  var description: String {
    switch self {
    case .endlessHistory: "the notification history has no last page"
    case .beginsInTheFuture: "the start time is in the future"
    }
  }
}
