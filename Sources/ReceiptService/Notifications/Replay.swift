import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes
import Logging
import Postgres
import Subscriptions

/// Processes kept notifications once more: what could not be understood when it came may be understood now.
struct Replay: Sendable {
  let pool: PostgresPool
  let intake: NotificationIntake
  let ledger: LedgerWriter
  let logger: Logger

  private static let page = 64

  /// Which notifications that wait are processed again.
  enum Turn: Sendable {
    /// Those that a new configuration, new roots or a new version may understand.
    case start
    /// Those that failed by a fault of ours, and not of their own.
    case failed
  }

  /// Processes one again, whatever came of it before.
  /// - Parameter action: what is written down with it; `nil` where no person wanted it.
  /// - Throws: ``ReplayFailure``, and what the database and the ledger throw.
  func run(_ uuid: UUID, as action: LedgerAction? = nil) async throws -> ReplayResult {
    guard let row = try await pool.query(NotificationRows.payload(of: uuid)).first else {
      throw ReplayFailure.notKept
    }
    var entry = try entry(for: NotificationRows.decodePayload(row))
    // It is found by the name that it is kept under.
    entry.notification?.uuid = uuid
    entry.isReplay = true
    entry.action = action
    let receipt = try await ledger.record(entry)
    return ReplayResult(
      outcome: receipt.outcome ?? "recorded", isProcessed: receipt.isProcessed,
      failure: entry.notification?.failure.map(ReplayResult.Failure.init))
  }

  private func entry(for kept: KeptPayload) throws(ReplayFailure) -> LedgerEntry {
    do throws(VerificationFailure) {
      return try intake.entry(for: kept.signedPayload)
    } catch {
      // It carried the App Store's signature when it was kept: a root must have been taken away since.
      throw .notVerified("\(ReplayResult.Failure(error))")
    }
  }

  /// Processes those that wait, oldest first.
  /// - Returns: how many had a turn, and how many of them wait no more.
  func runWaiting(only turn: Turn = .start) async throws -> (waiting: Int, processed: Int) {
    var (waiting, processed) = try await runPages {
      NotificationRows.waiting(turn, after: $0, limit: Self.page)
    }
    guard turn == .start else { return (waiting, processed) }
    // Those of apps that are still unknown, which may be many and anybody's, are not even read.
    for app in intake.catalog.apps {
      let known = try await runPages {
        NotificationRows.waiting(forApp: app.bundleID, after: $0, limit: Self.page)
      }
      waiting += known.waiting
      processed += known.processed
    }
    return (waiting, processed)
  }

  /// Processes page after page, each asked for by where the one before ended.
  private func runPages(
    _ next: (NotificationRows.Place) -> Postgres.Query
  ) async throws -> (waiting: Int, processed: Int) {
    var waiting = 0
    var processed = 0
    var last = NotificationRows.Place.start
    while true {
      let page = try await pool.query(next(last)).map {
        NotificationRows.Place(receivedAt: try $0.decode(0), uuid: try $0.decode(1))
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
        metadata: ["notification": "\(uuid.uuidString.lowercased())", "reason": "\(error)"])
      return false
    }
  }
}

/// What came of processing a kept notification again.
public struct ReplayResult: Hashable, Sendable {
  /// The word for the column `outcome`.
  public var outcome: String
  /// Whether it took effect; else it still waits.
  public var isProcessed: Bool
  /// Why it still fails, where a part of it does not verify or cannot be read.
  public var failure: Failure?

  /// Why signed data is not accepted.
  public struct Failure: Hashable, Sendable, CustomStringConvertible {
    /// The code that a client would be answered with for the same fault in a proof.
    public var code: String
    /// The part and the fault in it, for an operator.
    public var detail: String

    init(_ failure: VerificationFailure) {
      code = Problem(clientProof: failure).code.rawValue
      detail = failure.description
    }

    /// Both in one line.
    public var description: String { "\(code): \(detail)" }
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
