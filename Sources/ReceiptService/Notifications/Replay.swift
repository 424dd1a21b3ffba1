import AppStore
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Logging
import Postgres
import Subscriptions

/// Replays stored notifications that could not be processed when they were received.
struct Replay: Sendable {
  let pool: PostgresPool
  let intake: NotificationIntake
  let ledger: LedgerWriter
  let logger: Logger

  private static let pageSize = 64

  /// The pending notifications to replay.
  enum Selection: Sendable {
    /// Those that a new configuration, new root certificates or a new version may accept.
    case afterStart
    /// Those that failed by an error of the server, not of the notification.
    case failed
  }

  /// Replays one notification, whatever its outcome was.
  /// - Parameter action: the support action to record; `nil` for an automatic replay.
  /// - Throws: ``ReplayFailure``; errors of the database and the ledger.
  func run(_ uuid: UUID, as action: LedgerAction? = nil) async throws -> ReplayResult {
    guard let row = try await pool.query(NotificationRows.payload(of: uuid)).first else {
      throw ReplayFailure.notKept
    }
    let kept = try KeptPayload(row)
    if kept.isErased { throw ReplayFailure.erased }
    var entry = try entry(for: kept)
    // Keep the stored UUID: it may differ from the payload's.
    entry.notification?.uuid = uuid
    entry.isReplay = true
    entry.action = action
    let receipt = try await ledger.record(entry)
    if receipt.outcome == "erased" { throw ReplayFailure.erased }
    return ReplayResult(
      outcome: receipt.outcome ?? "recorded", isProcessed: receipt.isProcessed,
      failure: entry.notification?.failure.map(ReplayResult.Failure.init)
        ?? (receipt.isProcessed ? nil : ReplayResult.Failure(receipt.outcome, of: entry)))
  }

  private func entry(for kept: KeptPayload) throws(ReplayFailure) -> LedgerEntry {
    do throws(VerificationFailure) {
      return try intake.entry(for: kept.signedPayload)
    } catch {
      // Its signature was valid when it was stored, so a root certificate must have been removed since.
      throw .notVerified("\(ReplayResult.Failure(error))")
    }
  }

  /// Replays pending notifications, oldest first.
  /// - Returns: how many were replayed, and how many of them were processed.
  func runPending(_ selection: Selection = .afterStart) async throws -> (pending: Int, processed: Int) {
    var (pending, processed) = try await runPages {
      NotificationRows.pending(selection, after: $0, limit: Self.pageSize)
    }
    guard selection == .afterStart else { return (pending, processed) }
    // Notifications of apps that are still unknown are not read: there may be many.
    for app in intake.catalog.apps {
      let known = try await runPages {
        NotificationRows.pending(forApp: app.bundleID, after: $0, limit: Self.pageSize)
      }
      pending += known.pending
      processed += known.processed
    }
    return (pending, processed)
  }

  /// Replays page after page (keyset pagination).
  private func runPages(
    _ query: (NotificationRows.PageKey) -> Postgres.Query
  ) async throws -> (pending: Int, processed: Int) {
    var pending = 0
    var processed = 0
    var last = NotificationRows.PageKey.start
    while true {
      let page = try await pool.query(query(last)).map(NotificationRows.PageKey.init)
      guard let end = page.last else { return (pending, processed) }
      last = end
      pending += page.count
      for notification in page where try await replay(notification.uuid) { processed += 1 }
    }
  }

  /// A notification that fails does not stop the replay; an unavailable database does.
  private func replay(_ uuid: UUID) async throws -> Bool {
    do {
      return try await run(uuid).isProcessed
    } catch let error as Problem where error.status == .serviceUnavailable {
      throw error
    } catch let error as PostgresError where error.isUnavailable {
      throw error
    } catch  where Task.isCancelled {
      throw error
    } catch {
      logger.error(
        "a stored notification cannot be processed",
        metadata: ["notification": "\(uuid.uuidString.lowercased())", "reason": "\(error)"])
      return false
    }
  }
}
