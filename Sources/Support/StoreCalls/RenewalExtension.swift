import Actions
import AppStore
import Customers
import Foundation
import Identifiers
import JSON
import Postgres
import Text
import Work

/// A row of `renewal_extensions`: an extension of all active subscribers of a product, or of one subscription.
package struct RenewalExtension: Encodable, Sendable, CustomStringConvertible {
  /// The key of the row.
  package let id: UUID
  /// Apple's `requestIdentifier`: the key in lower case.
  let requestIdentifier: String
  /// The app.
  let bundleID: String
  /// The environment of the App Store.
  let environment: String
  /// The subscription; `null` for all active subscribers.
  @Nullable var originalTransactionID: String? = nil
  /// The product.
  let productID: String
  /// The storefronts; `null` for all.
  @Nullable var storefronts: [String]? = nil
  /// By how many days.
  let days: Int
  /// Apple's code of the reason.
  let reasonCode: Int
  /// Whether nothing was asked or written.
  package internal(set) var isDryRun = false
  /// When the App Store took the request; `null`: not yet.
  @Nullable var acceptedAt: Date? = nil
  /// When it ended; `null`: it is in progress.
  @Nullable var completedAt: Date? = nil
  /// The new renewal date of the one subscription.
  @Nullable var renewsAt: Date? = nil
  /// How many active subscriptions receiptd knows that a dry run for all subscribers concerns.
  @Nullable var subscribers: Int64? = nil
  /// How many of these were extended within a day already.
  @Nullable var extendedAlready: Int64? = nil
  /// How many subscriptions were extended.
  @Nullable var succeeded: Int64? = nil
  /// How many could not be extended.
  @Nullable var failed: Int64? = nil
  /// The last refusal or failure.
  @Nullable var error: String? = nil
  /// The number of requests without an end.
  let attempts: Int
  /// When support asked.
  let requestedAt: Date
  /// The expiry of the one subscription at the App Store before the first request was sent; `nil`: none was sent.
  var expiresBefore: Date?
  /// When an owner of the one subscription had been erased before this command.
  var ownerErasedAt: Date?
  /// Until when this process holds the request for one subscription.
  var heldUntil: Date?
  /// The person who asked; `nil` for the author of this command.
  var requestedBy: String?

  private enum CodingKeys: CodingKey {
    case requestIdentifier, bundleID, environment, originalTransactionID, productID, storefronts, days,
      reasonCode,
      isDryRun, subscribers, extendedAlready, acceptedAt, completedAt, renewsAt, succeeded, failed, error
  }

  /// Whether it has ended, also by a refusal.
  package var isComplete: Bool { completedAt != nil }

  init(
    bundleID: String, environment: String, originalTransactionID: String? = nil, productID: String,
    storefronts: [String]? = nil, days: Int, reasonCode: Int, requestedAt: Date
  ) {
    id = UUID()
    requestIdentifier = id.uuidString.lowercased()
    self.bundleID = bundleID
    self.environment = environment
    self.originalTransactionID = originalTransactionID
    self.productID = productID
    self.storefronts = storefronts
    self.days = days
    self.reasonCode = reasonCode
    self.requestedAt = requestedAt
    attempts = 0
  }

  init(_ row: Row) throws {
    id = try row.decode("request_identifier")
    requestIdentifier = id.uuidString.lowercased()
    bundleID = try row.decode("bundle_id")
    environment = try row.decode("environment")
    productID = try row.decode("product_id")
    days = try row.decode("days")
    reasonCode = try row.decode("reason_code")
    attempts = try row.decode("attempts")
    requestedAt = try row.decode("requested_at")
    expiresBefore = try row.decode("expires_before")
    heldUntil = try row.decode("next_attempt_at")
    requestedBy = try row.decode("by")
    originalTransactionID = try row.decode("original_transaction_id")
    storefronts = try row.decode("storefronts")
    acceptedAt = try row.decode("accepted_at")
    completedAt = try row.decode("completed_at")
    renewsAt = try row.decode("effective_at")
    succeeded = try row.decode("succeeded")
    failed = try row.decode("failed")
    error = try row.decode("last_error")
  }

  var storeEnvironment: AppStore.Environment { AppStore.Environment(rawValue: environment) }

  var code: ExtendReasonCode { ExtendReasonCode(rawValue: Int32(reasonCode)) }

  /// Whether another request asks for the same.
  func isSameRequest(as other: RenewalExtension) -> Bool {
    days == other.days && reasonCode == other.reasonCode && storefronts == other.storefronts
  }

  /// One line.
  package var description: String {
    if let originalTransactionID {
      let renews = renewsAt.map { "renews at \($0.rfc3339)" } ?? "no end"
      return isDryRun
        ? "\(originalTransactionID): would be extended by \(days) days and renew about \(renewsAt?.rfc3339 ?? "then")"
        : "\(originalTransactionID): extended by \(days) days, \(renews)"
    }
    let scope = "\(productID) (\(environment), \(storefronts?.joined(separator: ", ") ?? "all storefronts"))"
    if isDryRun {
      let already =
        extendedAlready.map { $0 == 0 ? "" : ", \($0) of them extended within a day already" } ?? ""
      return
        "\(scope): \(subscribers ?? 0) known subscribers would be extended by \(days) days\(already)"
    }
    if completedAt != nil, let succeeded, let failed {
      return
        "\(scope): \(succeeded) extended by \(days) days, \(failed) could not be extended (\(requestIdentifier))"
    }
    if completedAt != nil { return "\(scope): not extended: \(error ?? "") (\(requestIdentifier))" }
    let state = acceptedAt == nil ? "waits for the App Store" : "the App Store works on it, for hours or days"
    return "\(scope): \(state); the server follows it. See --status \(requestIdentifier)"
  }
}

/// Statements on the table `renewal_extensions`.
package enum RenewalExtensionRows {
  /// The queue of requests for all subscribers of a product, which the job follows.
  static let ofAll = WorkTable(
    "renewal_extensions", key: "request_identifier",
    isOpen: "completed_at IS NULL AND original_transaction_id IS NULL")
  /// The requests for one subscription. Each is leased by the command that carries it out.
  static let ofOne = WorkTable(
    "renewal_extensions", key: "request_identifier",
    isOpen: "completed_at IS NULL AND original_transaction_id IS NOT NULL")

  /// For how long an extension that the App Store refused may be asked for again, in seconds.
  private static let requeueTime: TimeInterval = 7 * 86_400

  /// The App Store takes a repeated request as the same. An extension of one subscription is repeated by its command,
  /// which checks the expiry first.
  package static let requeuable = RequeuableQueue(
    "renewal_extensions",
    only:
      "an extension of all subscribers of a product that waits, or that the App Store refused within a week, while no other one of the product is open "
      + "or was accepted since; "
      + "repeat extend-renewal for one subscription"
  ) { key, instant in
    guard let id = UUID(rfc9562: key) else { return nil }
    return """
      \(ofAll.requeue(id, at: instant, setting: ", completed_at = NULL, succeeded = NULL, failed = NULL"))
        AND original_transaction_id IS NULL
        AND (completed_at IS NULL OR last_error IS NOT NULL AND completed_at > \(instant.addingTimeInterval(-requeueTime)))
        AND NOT EXISTS (
          SELECT FROM renewal_extensions other
          WHERE other.bundle_id = renewal_extensions.bundle_id AND other.environment = renewal_extensions.environment
            AND other.product_id = renewal_extensions.product_id AND other.original_transaction_id IS NULL
            AND other.request_identifier <> renewal_extensions.request_identifier
            AND (other.completed_at IS NULL
              OR other.accepted_at IS NOT NULL AND other.requested_at >= renewal_extensions.requested_at))
      RETURNING bundle_id, original_transaction_id
      """
  }

  static let columns: Query = """
    request_identifier, bundle_id, environment, original_transaction_id, product_id, storefronts, days, reason_code,
    requested_at, accepted_at, attempts, completed_at, expires_before, effective_at, succeeded, failed, last_error,
    next_attempt_at, by
    """

  /// Inserts no row while another request for the subscription, or for all subscribers of the product, has not ended.
  static func insert(_ asked: RenewalExtension, by author: SupportAuthor, nextAttemptAt: Date?) -> Query {
    """
    INSERT INTO renewal_extensions (request_identifier, bundle_id, environment, original_transaction_id, product_id,
      storefronts, days, reason_code, by, reason, requested_at, next_attempt_at)
    VALUES (\(asked.id), \(asked.bundleID), \(asked.environment),
      \(asked.originalTransactionID)::text, \(asked.productID), \(asked.storefronts)::text[], \(asked.days),
      \(asked.reasonCode), \(author.by), \(author.reason), \(asked.requestedAt),
      \(nextAttemptAt)::timestamptz)
    ON CONFLICT DO NOTHING
    """
  }

  /// The request for one subscription that has not ended.
  static func open(_ originalTransactionID: String) -> Query {
    """
    SELECT request_identifier FROM renewal_extensions
    WHERE original_transaction_id = \(originalTransactionID) AND completed_at IS NULL
    """
  }

  /// Writes the expiry before a request for one subscription is sent, and extends its lease; no row if another process
  /// took it.
  static func begin(_ asked: RenewalExtension, expiresAt expiry: Date, until end: Date?) -> Query {
    """
    UPDATE renewal_extensions SET expires_before = \(expiry), next_attempt_at = \(end)::timestamptz
    WHERE request_identifier = \(asked.id) AND completed_at IS NULL AND next_attempt_at = \(asked.heldUntil)::timestamptz
    """
  }

  /// Whether a period of a subscription ends at this instant.
  static func hasPeriod(of originalTransactionID: String, endingAt end: Date) -> Query {
    """
    SELECT EXISTS (
      SELECT FROM transactions WHERE original_transaction_id = \(originalTransactionID)
        AND expiry_date BETWEEN \(end - 1) AND \(end + 1)) AS found
    """
  }

  /// The latest request for one subscription that the App Store carried out.
  static func done(_ originalTransactionID: String, since start: Date) -> Query {
    """
    SELECT \(columns) FROM renewal_extensions
    WHERE original_transaction_id = \(originalTransactionID) AND accepted_at >= \(start)
    ORDER BY accepted_at DESC LIMIT 1
    """
  }

  /// The latest other request for all subscribers of the same product.
  static func latest(otherThan asked: RenewalExtension) -> Query {
    """
    SELECT \(columns) FROM renewal_extensions
    WHERE original_transaction_id IS NULL AND product_id = \(asked.productID) AND bundle_id = \(asked.bundleID)
      AND environment = \(asked.environment) AND request_identifier <> \(asked.id)
    ORDER BY requested_at DESC LIMIT 1
    """
  }

  /// The active subscriptions that a request for all subscribers concerns, and how many of them were extended since
  /// `start` already.
  static func subscribers(of asked: RenewalExtension, since start: Date) -> Query {
    """
    SELECT count(*) AS subscribers, count(*) FILTER (WHERE EXISTS (
      SELECT FROM renewal_extensions e WHERE e.original_transaction_id = s.original_transaction_id
        AND e.accepted_at IS NOT NULL AND e.requested_at >= \(start))) AS extended_already
    FROM subscriptions s JOIN transactions t ON t.transaction_id = s.transaction_id
    WHERE s.bundle_id = \(asked.bundleID) AND s.environment = \(asked.environment) AND s.store_status = 'active'
      AND s.expiry_date > \(asked.requestedAt) AND s.ownership = 'PURCHASED' AND t.product_id = \(asked.productID)
      AND (\(asked.storefronts)::text[] IS NULL OR t.other_claims ->> 'storefront' = ANY(\(asked.storefronts)))
    """
  }

  static func select(_ identifier: UUID) -> Query {
    "SELECT \(columns) FROM renewal_extensions WHERE request_identifier = \(identifier)"
  }

  static func accept(_ identifier: UUID, at instant: Date) -> Query {
    """
    UPDATE renewal_extensions SET accepted_at = \(instant), last_error = NULL
    WHERE request_identifier = \(identifier) AND completed_at IS NULL
    """
  }

  /// Writes when a request for one subscription may be sent again; no row if another process took it.
  static func postpone(_ asked: RenewalExtension, until next: Date, because reason: String) -> Query {
    """
    \(ofOne.retry(asked.id, of: nil, at: next, because: reason, isAttempt: true))
      AND next_attempt_at = \(asked.heldUntil)::timestamptz
    """
  }

  /// Ends a request with what the App Store said; no row of a request for one subscription if another process took it.
  static func complete(_ ended: RenewalExtension, at instant: Date) -> Query {
    """
    UPDATE renewal_extensions SET completed_at = \(instant), next_attempt_at = NULL,
      accepted_at = \(ended.acceptedAt)::timestamptz, effective_at = \(ended.renewsAt)::timestamptz,
      succeeded = \(ended.succeeded)::bigint, failed = \(ended.failed)::bigint, last_error = \(ended.error)::text
    WHERE request_identifier = \(ended.id) AND completed_at IS NULL
      AND (original_transaction_id IS NULL OR next_attempt_at = \(ended.heldUntil)::timestamptz)
    """
  }
}
