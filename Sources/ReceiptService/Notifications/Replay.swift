import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes
import Logging
import Postgres

/// Processes kept notifications once more: what could not be understood when it came may be understood now.
struct Replay: Sendable {
  let pool: PostgresPool
  let intake: NotificationIntake
  let ledger: LedgerWriter
  let logger: Logger

  private static let page = 64

  /// Processes one again, whatever came of it before.
  /// - Throws: ``ReplayFailure``, and what the database and the ledger throw.
  func run(_ uuid: UUID) async throws -> LedgerReceipt {
    guard let row = try await pool.query(NotificationRows.payload(of: uuid)).first else {
      throw ReplayFailure.notKept
    }
    var entry = try entry(for: NotificationRows.decodePayload(row))
    // It is found by the name that it is kept under.
    entry.notification?.uuid = uuid
    entry.isReplay = true
    return try await ledger.record(entry)
  }

  private func entry(for kept: KeptPayload) throws(ReplayFailure) -> LedgerEntry {
    do throws(VerificationFailure) {
      return try intake.entry(for: kept.signedPayload)
    } catch {
      // It carried the App Store's signature when it was kept: a root must have been taken away since.
      throw .notVerified("\(error)")
    }
  }

  /// Processes all that wait, oldest first.
  /// - Returns: how many waited, and how many do no more.
  func runWaiting(
    only obstacle: KeptNotification.Obstacle? = nil
  ) async throws -> (waiting: Int, processed: Int) {
    var waiting = 0
    var processed = 0
    var last: (receivedAt: Date, uuid: UUID)?
    while true {
      let page = try await pool.query(NotificationRows.waiting(only: obstacle, after: last, limit: Self.page))
        .map {
          (receivedAt: try $0.decode(0, as: Date.self), uuid: try $0.decode(1, as: UUID.self))
        }
      guard let end = page.last else { return (waiting, processed) }
      last = end
      waiting += page.count
      for notification in page where try await isProcessed(notification.uuid) { processed += 1 }
    }
  }

  /// One that fails must not keep those behind it from their turn; a database that is away keeps all.
  private func isProcessed(_ uuid: UUID) async throws -> Bool {
    do {
      return try await run(uuid).isProcessed
    } catch let error as Problem where error.status == .serviceUnavailable {
      throw error
    } catch let error as PostgresError where error.isUnavailable {
      throw error
    } catch {
      logger.error(
        "a kept notification cannot be processed",
        metadata: ["notification": "\(uuid)", "reason": "\(error)"])
      return false
    }
  }
}

/// Why a kept notification was not processed again.
public enum ReplayFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// There is none of that UUID.
  case notKept
  /// Its signature is not accepted any more.
  case notVerified(String)

  /// A sentence for the operator.
  public var description: String {
    switch self {
    case .notKept: "no notification with this UUID is kept"
    case .notVerified(let reason): "its signature is not accepted any more: \(reason)"
    }
  }
}
