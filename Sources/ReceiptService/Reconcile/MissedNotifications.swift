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

  /// Reads one piece, page by page.
  func read(
    _ api: AppStoreServerAPI, _ environment: Environment, from start: Date, until end: Date,
    into report: inout ReconcileReport
  ) async throws {
    let request = NotificationHistoryRequest(startDate: start, endDate: end)
    var token: String?
    while true {
      let page = try await api.notificationHistory(request, paginationToken: token, in: environment)
      try await take((page.notificationHistory ?? []).compactMap(\.signedPayload), into: &report)
      guard page.hasMore == true else { return }
      // The same token again would read the same page for ever.
      guard let next = page.paginationToken, next != token else { throw ReconcileFailure.endlessHistory }
      token = next
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
    let receipts = try await withThrowingTaskGroup(of: (Int, LedgerReceipt).self) { group in
      for (index, entry) in entries.enumerated() {
        group.addTask { (index, try await ledger.record(entry)) }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    for (index, receipt) in receipts.sorted(by: { $0.0 < $1.0 }) where !receipt.isDuplicate {
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

  var description: String {
    switch self {
    case .endlessHistory: "the notification history does not come to an end"
    }
  }
}
