import Actions
import Customers
import Deliveries
import Foundation
import JSON
import Ledger
import Postgres
import Subscriptions
import Text
import Work

/// Sets what the App Store is told when one customer, or the buyer of one purchase, requests a refund. It replaces the
/// app's `refundAnswers`, from the next answer on; a request that waits is looked at within five minutes.
package struct RefundAnswerRequest: SupportRequest {
  package static let operation = SupportOperation.refundAnswer

  /// A customer, or any transaction id of a purchase.
  var id: String
  /// The preference.
  var prefer: RefundChoice
  /// The only app; `nil` for all apps that know the id.
  var bundleID: String?

  package init(id: String, prefer: RefundChoice, bundleID: String? = nil) {
    self.id = id
    self.prefer = prefer
    self.bundleID = bundleID
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> RefundPreferenceResult {
    try await desk.preferRefund(self, by: author, isDryRun: isDryRun)
  }
}

extension SupportDesk {
  fileprivate func preferRefund(
    _ request: RefundAnswerRequest, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> RefundPreferenceResult {
    let (choice, id, bundleID) = (request.prefer, request.id, request.bundleID)
    if let bundleID { _ = try app(named: bundleID) }
    // PostgreSQL's text has no U+0000.
    guard !id.utf8.contains(0) else {
      throw SupportRefusal.notFound("No customer and no purchase has an id with U+0000.")
    }
    let instant = clock.now()
    let known = try await pool.withConnection { try await purchases(of: id, bundleID: bundleID, $0) }
    // An order, a request or a paired device leads to customers too. None of them is the id of a customer.
    let found =
      try await known.isEmpty
      ? pool.withConnection { try await CustomerSearch(id, in: catalog, $0).customers(named: id) } : []
    // An erasure that has begun ends before the record is written, or finds it.
    return try await customerTransactions.run(
      locking: Set(found.map(\.customer.lockName)), purchases: Set(known.map(\.originalTransactionID)),
      isDryRun: isDryRun
    ) { connection, _ in
      let actions = try await refundPreferences(
        choice, for: id, bundleID: bundleID, purchases: known, on: connection)
      _ = try await connection.query(SupportActionRows.insert(actions, by: author, at: instant))
      let purchases = try await connection.query(Self.purchases(of: actions)).map {
        try $0.decode("original_transaction_id", as: String.self)
      }
      let open = try await connection.query(StoreCallRows.openRefundRequests(of: purchases))
      var lacksConsent = false
      for purchase in purchases {
        let row = try await connection.query(RefundAnswerRows.customer(of: purchase)).first
        if try row?.decode("is_given", as: Bool?.self) != true { lacksConsent = true }
      }
      return RefundPreferenceResult(
        id: id, prefer: choice, purchases: purchases.sorted(), openRequests: open.count,
        answerBy: try open.map { try $0.decode("deadline", as: Date.self) }.min(), lacksConsent: lacksConsent,
        sentRequests: try open.count { try $0.decode("is_fixed", as: Bool.self) }, isDryRun: isDryRun)
    }
  }

  /// The purchases with a transaction of that id, each with its app.
  private func purchases(
    of id: String, bundleID: String?, _ connection: PostgresConnection
  ) async throws -> [(bundleID: String, originalTransactionID: String)] {
    try await connection.query(
      """
      SELECT DISTINCT bundle_id, original_transaction_id FROM transactions
      WHERE (transaction_id = \(id) OR original_transaction_id = \(id))
        AND bundle_id = coalesce(\(bundleID)::text, bundle_id)
      """
    ).map { (try $0.decode("bundle_id"), try $0.decode("original_transaction_id")) }
  }

  /// The records of the preference: of the purchases with that id, else of each customer with that id.
  private func refundPreferences(
    _ choice: RefundChoice, for id: String, bundleID: String?,
    purchases: [(bundleID: String, originalTransactionID: String)], on connection: PostgresConnection
  ) async throws -> [SupportAction] {
    let details: [String: JSONValue] = ["prefer": .string(choice.rawValue)]
    if !purchases.isEmpty {
      return purchases.map {
        SupportAction(
          name: RefundAnswerRows.preferenceAction, bundleID: $0.bundleID,
          originalTransactionID: $0.originalTransactionID, details: details)
      }
    }
    // An erasure may have ended before the lock. Its customer must not be named any more.
    let matches = try await CustomerSearch(id, in: catalog, connection).customers(named: id).filter {
      bundleID == nil || $0.bundleID == bundleID
    }
    guard !matches.isEmpty else {
      throw SupportRefusal.notFound("No customer and no purchase has the id '\(id)'.")
    }
    // A user may be one of several apps. The same id of a device in another app is another customer's.
    guard matches.count == 1 || matches.allSatisfy({ $0.customer.userID != nil }) else {
      throw SupportRefusal.invalid(
        "\(id) is a customer of \(matches.map(\.bundleID).joined(separator: ", ")), and not the same one. Name one app, with --bundle "
          + "(support API: \"bundleID\").")
    }
    return matches.map {
      SupportAction(
        name: RefundAnswerRows.preferenceAction, bundleID: $0.bundleID, to: $0.customer, details: details)
    }
  }

  /// The purchases that a preference concerns.
  private static func purchases(of actions: [SupportAction]) -> Query {
    """
    SELECT original_transaction_id FROM subscriptions
    WHERE bundle_id = ANY(\(actions.compactMap(\.bundleID))) AND (
      original_transaction_id = ANY(\(actions.compactMap(\.originalTransactionID)))
      OR owned_because IS DISTINCT FROM 'unproven_claim' AND (
        user_id = ANY(\(actions.compactMap { $0.to?.userID }))
        OR device_id = ANY(\(actions.compactMap { $0.to?.deviceID })) AND user_id IS NULL)
      OR user_id IS NULL AND original_transaction_id IN (
        SELECT d.original_transaction_id FROM purchase_devices d
        WHERE d.device_id = ANY(\(actions.compactMap { $0.to?.deviceID })) AND d.is_proven AND NOT d.is_barred))
    """
  }
}

/// The result of ``RefundAnswerRequest``.
package struct RefundPreferenceResult: Encodable, Sendable, CustomStringConvertible {
  /// The customer or purchase, as given.
  let id: String
  /// The preference.
  let prefer: RefundChoice
  /// The purchases that it concerns today.
  let purchases: [String]
  /// The number of refund requests that wait for an answer.
  let openRequests: Int
  /// When the first of them ends; `null` for none.
  @Nullable var answerBy: Date?
  /// Whether the customer of one of the purchases has not consented: then the App Store is told nothing.
  let lacksConsent: Bool
  /// How many of these requests have an answer that was sent and whose end is not known: it is repeated unchanged.
  let sentRequests: Int
  /// Whether nothing was written.
  let isDryRun: Bool

  init(
    id: String, prefer: RefundChoice, purchases: [String], openRequests: Int, answerBy: Date?,
    lacksConsent: Bool, sentRequests: Int, isDryRun: Bool
  ) {
    self.id = id
    self.prefer = prefer
    self.purchases = purchases
    self.openRequests = openRequests
    self.answerBy = answerBy
    self.lacksConsent = lacksConsent
    self.sentRequests = sentRequests
    self.isDryRun = isDryRun
  }

  /// One line.
  package var description: String {
    let preference =
      switch prefer {
      case .grant: "the next answer will prefer a refund"
      case .decline: "the next answer will prefer no refund"
      case .none: "the next answer will have facts without a preference"
      }
    let open = answerBy.map { "; a request waits for an answer until \($0.rfc3339)" } ?? "; no request waits"
    let consent =
      lacksConsent ? "; the customer has not consented, and without that the App Store is told nothing" : ""
    let purchase = purchases.isEmpty ? "; the customer has no proven purchase" : ""
    let sent =
      sentRequests > 0
      ? "; an answer to it was sent, the end is not known, and that answer is repeated unchanged" : ""
    return "\(id): \(preference)\(open)\(sent)\(consent)\(purchase)"
  }
}
