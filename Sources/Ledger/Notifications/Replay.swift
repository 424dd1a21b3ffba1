import Actions
import AppStore
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Identifiers
import Logging
import Postgres
import Requests
import Subscriptions

/// Processes a kept notification again.
package struct ReplayRequest: SupportRequest {
  package static let operation = SupportOperation.replay
  /// What a notification does is known once it is recorded.
  package static let hasPreview = false

  /// Apple's `notificationUUID`.
  var notificationUUID: StrictUUID

  package init(notificationUUID: UUID) {
    self.notificationUUID = StrictUUID(notificationUUID)
  }

  package func run(at replay: Replay, by author: SupportAuthor, isDryRun: Bool) async throws -> ReplayResult {
    try await replay.run(notificationUUID.value, by: author)
  }
}

/// Replays stored notifications that could not be processed when they were received.
package struct Replay: Sendable {
  let pool: PostgresPool
  package let intake: NotificationIntake
  let ledger: LedgerWriter
  let logger: Logger

  package init(pool: PostgresPool, intake: NotificationIntake, ledger: LedgerWriter, logger: Logger) {
    self.pool = pool
    self.intake = intake
    self.ledger = ledger
    self.logger = logger
  }

  private static let pageSize = 64

  /// The pending notifications to replay.
  package enum Selection: Sendable {
    /// Those that a new configuration, new root certificates or a new version may accept.
    case afterStart
    /// Those that failed by an error of the server, not of the notification.
    case failed
  }

  /// Replays one notification, whatever its outcome was.
  /// - Parameter author: the person who asked for it, whose replay is recorded; `nil` for an automatic replay.
  /// - Throws: ``ReplayFailure``; errors of the database and the ledger.
  package func run(_ uuid: UUID, by author: SupportAuthor? = nil) async throws -> ReplayResult {
    guard let row = try await pool.query(NotificationRows.payload(of: uuid)).first else {
      throw ReplayFailure.notKept
    }
    let kept = try KeptPayload(row)
    if kept.isErased { throw ReplayFailure.erased }
    var entry = try entry(for: kept)
    if var notification = entry.notification {
      // Keep the stored UUID: it may differ from the payload's.
      notification.uuid = uuid
      entry.cause = .replay(notification, entry.refundRequest, by: author)
    }
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
  package func runPending(_ selection: Selection = .afterStart) async throws -> (pending: Int, processed: Int)
  {
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

/// The result of a replay of a stored notification.
package struct ReplayResult: Encodable, Hashable, Sendable, CustomStringConvertible {
  /// The value of the column `outcome`.
  package var outcome: String
  /// Whether it was processed; otherwise it is still pending.
  package var isProcessed: Bool
  /// Why it still waits; `nil` if it was processed.
  package var failure: Failure?

  /// Why signed data is not accepted.
  package struct Failure: Hashable, Sendable, CustomStringConvertible {
    /// The error code that a client gets for the same failure.
    package var code: String
    /// The part and its failure, for an operator.
    package var detail: String

    package init(_ failure: VerificationFailure) {
      code = Problem(clientProof: failure).code.rawValue
      detail = failure.description
    }

    /// The failure of a notification whose parts are genuine, and which this configuration or version does not serve.
    /// - Parameter outcome: a value of ``KeptNotification/PendingReason``.
    package init?(_ outcome: String?, of entry: LedgerEntry) {
      guard let notification = entry.notification,
        let reason = outcome.flatMap(KeptNotification.PendingReason.init)
      else { return nil }
      let app = notification.bundleID ?? "of no bundle id"
      switch reason {
      case .unknownApp:
        code = "wrong_app"
        detail = "the configuration has no app \(app); add it and reload"
      case .unknownEnvironment:
        code = "wrong_environment"
        detail = "'environments' of \(app) does not have \(notification.environment ?? "this environment")"
      case .unknownProduct:
        let products = Set(entry.transactions.map(\.fact.productID)).sorted().joined(separator: ", ")
        code = "unknown_product"
        detail = "the catalog of \(app) has no product \(products); add it and reload"
      case .unknownType:
        code = "invalid_request"
        detail = "this version of receiptd does not know the type \(notification.type); a newer one may"
      case .failed:
        code = "internal"
        detail = "receiptd could not write it; the log has the cause"
      }
    }

    /// Both in one line.
    package var description: String { "\(code): \(detail)" }
  }

  private enum Key: CodingKey { case outcome, isProcessed, code, detail }

  /// Writes one object, with the failure's members.
  package func encode(to encoder: any Encoder) throws {
    var members = encoder.container(keyedBy: Key.self)
    try members.encode(outcome, forKey: .outcome)
    try members.encode(isProcessed, forKey: .isProcessed)
    try members.encodeIfPresent(failure?.code, forKey: .code)
    try members.encodeIfPresent(failure?.detail, forKey: .detail)
  }

  /// The outcome, or why it still waits.
  package var description: String { failure.map { "still waits: \($0)" } ?? outcome }
}

/// Why a stored notification could not be replayed.
package enum ReplayFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// No notification with this UUID is stored.
  case notKept
  /// Its customer was erased, and the payload with the customer.
  case erased
  /// The signature is not accepted any more.
  case notVerified(String)

  /// A sentence for the operator.
  package var description: String {
    switch self {
    case .notKept: "no notification with this UUID is stored"
    case .erased: "its customer was erased, so only the impersonal claims are kept"
    case .notVerified(let reason): "\(reason); the signature is not accepted any more"
    }
  }
}
