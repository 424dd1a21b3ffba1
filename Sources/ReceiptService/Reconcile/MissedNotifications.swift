import AppStore
import FoundationEssentials
import Logging

/// Reads the App Store's notification history and takes in what never arrived.
struct MissedNotifications: Sendable {
  let intake: NotificationIntake
  let ledger: LedgerWriter
  let logger: Logger

  /// How far back Apple's history goes, less the time that a question may be under way.
  static func reach(in environment: Environment) -> TimeInterval {
    TimeInterval((environment == .production ? 180 : 30) * 86_400 - 600)
  }

  /// A history is read piece by piece, so that what was read is done even if the rest is not.
  static let window: TimeInterval = 7 * 86_400

  /// So many pages without a notification, one after the other, are not a history.
  private static let maximumEmptyPages = 32

  /// Reads one piece, page by page.
  /// - Returns: whether every notification of it was taken in.
  func read(
    _ api: AppStoreServerAPI, _ environment: Environment, from start: Date, until end: Date,
    into report: inout ReconcileReport
  ) async throws -> Bool {
    let unfinished = report.notificationsRefused + report.notificationsFailed
    let request = NotificationHistoryRequest(startDate: start, endDate: end)
    var token: String?
    // A token that was there before would lead round in a circle for ever.
    var seen: Set<String> = []
    var emptyPages = 0
    while true {
      let page = try await api.notificationHistory(request, paginationToken: token, in: environment)
      let signedPayloads = (page.notificationHistory ?? []).compactMap(\.signedPayload)
      try await take(signedPayloads, into: &report)
      guard page.hasMore == true else {
        return report.notificationsRefused + report.notificationsFailed == unfinished
      }
      emptyPages = signedPayloads.isEmpty ? emptyPages + 1 : 0
      guard emptyPages < Self.maximumEmptyPages, let next = page.paginationToken, seen.insert(next).inserted
      else { throw ReconcileFailure.endlessHistory }
      token = next
    }
  }

  /// What came of one entry, as an object: of tuples with a receipt in them, the task group of a release build (Swift 6.3.1)
  /// gave back an index that nobody had put in, once a receipt had a flag at its end; `scripts/restore-drill` showed it.
  private final class Outcome: Sendable {
    let index: Int
    let result: Result<LedgerReceipt, any Error>

    init(index: Int, result: Result<LedgerReceipt, any Error>) {
      self.index = index
      self.result = result
    }
  }

  private func take(_ signedPayloads: [String], into report: inout ReconcileReport) async throws {
    report.notificationsRead += signedPayloads.count
    var entries: [LedgerEntry] = []
    for signedPayload in signedPayloads {
      do throws(VerificationFailure) {
        entries.append(try intake.entry(for: signedPayload, from: .history))
      } catch {
        report.notificationsRefused += 1
        logger.error(
          "the history has a notification that does not verify", metadata: ["reason": "\(error)"])
      }
    }
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
      } catch  where !isDatabaseUnavailable(error) {
        report.notificationsFailed += 1
        logger.error(
          "a notification of the history could not be written",
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
      report.note(receipt, cause: cause, at: entries[index].instant)
    }
  }
}

/// Why reconciling cannot go on, where it is not the App Store's own word.
enum ReconcileFailure: Error, CustomStringConvertible {
  case endlessHistory
  case beginsInTheFuture

  var description: String {
    switch self {
    case .endlessHistory: "the notification history does not come to an end"
    case .beginsInTheFuture: "the beginning that was asked for is in the future"
    }
  }
}
