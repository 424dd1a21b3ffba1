import Actions
import AppStore
import Customers
import Foundation
import HTTP
import JSON
import Ledger
import Postgres
import Requests
import Subscriptions
import Text
import Work

/// Transfers one purchase to another customer of the same app.
///
/// The previous owner's client cannot claim it back, whatever the app's transfer policy. Only support can transfer it
/// again, or the App Store, by signing a new `appAccountToken`. A family member's share of a purchase is not moved: it
/// has a transaction of its own, and ends with the family.
package struct TransferRequest: SupportRequest {
  package static let operation = SupportOperation.transfer

  /// The purchase.
  var originalTransactionID: String
  /// The new owner: a user's UUID or a device's id.
  var to: String
  /// Whether the customer may be one that was never seen.
  var force: Bool?

  package init(originalTransactionID: String, to: String, force: Bool? = nil) {
    self.originalTransactionID = originalTransactionID
    self.to = to
    self.force = force
  }

  package func run(
    at desk: SupportDesk, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> TransferResult {
    try await desk.transfer(self, by: author, isDryRun: isDryRun)
  }
}

extension SupportDesk {
  fileprivate func transfer(
    _ request: TransferRequest, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> TransferResult {
    let (originalTransactionID, isForced) = (request.originalTransactionID, request.force ?? false)
    guard originalTransactionID.isTransactionID else {
      throw SupportRefusal.notFound("'\(originalTransactionID)' is no transaction id: 1 to 20 digits.")
    }
    guard let stored = try await purchase(originalTransactionID) else {
      throw try await unknownPurchase(originalTransactionID)
    }
    let app = try app(named: stored.bundleID)
    let customer = try app.customer(named: request.to)
    guard stored.subscription.current.ownership != "FAMILY_SHARED" else {
      throw SupportRefusal.invalid(
        "\(originalTransactionID) is a family member's share, which only its Apple Account can use. Transfer the "
          + "purchaser's purchase, or grant access.")
    }
    try await checkSeen(customer, of: app, isForced: isForced)
    let transfer = SupportTransfer(customer: customer, author: author) {
      try await checkSeen(customer, of: app, isForced: isForced, on: $0)
    }
    let entry = LedgerEntry(
      app: app, originalTransactionID: originalTransactionID, because: .transfer(transfer),
      instant: clock.now())
    let (before, after) = try await isDryRun ? (stored, stored.foreseen(entry, in: app)) : moved(by: entry)
    let refunds = try await pool.withConnection { connection in
      try await refundRequests(of: [originalTransactionID], at: entry.instant, connection)
    }
    return TransferResult(
      originalTransactionID: originalTransactionID, productID: before.subscription.productID,
      bundleID: app.bundleID, from: before.owner?.customer.id, to: customer.id,
      isChanged: before.owner != after.owner || before.customers != after.customers, isDryRun: isDryRun,
      customers: try await concerned(from: before, to: after, in: app, at: entry.instant),
      openRefundRequests: refunds[originalTransactionID, default: []].filter { $0.outcome == nil })
  }

  /// Carries out a transfer. The purchase may have changed since it was read, so the ledger tells both states.
  private func moved(by entry: LedgerEntry) async throws -> (StoredSubscription, StoredSubscription) {
    let receipt = try await ledger.record(entry)
    guard let after = receipt.subscription else { throw ServiceError.internalError }
    return (receipt.previous ?? after, after)
  }

  /// The entitlements of all customers that a transfer concerns, with the purchase as it was and as it is.
  private func concerned(
    from before: StoredSubscription, to after: StoredSubscription, in app: App, at instant: Date
  ) async throws -> [TransferredCustomer] {
    guard let owner = after.owner?.customer else { return [] }
    let former = [before.owner?.customer].compactMap(\.self).filter { $0 != owner }
    let others = before.customers.subtracting(after.customers).subtracting(former).sorted { $0.id < $1.id }
    let customers = former + others + [owner]
    let records = try await pool.customerRecords(
      users: customers.compactMap(\.userID), devices: customers.compactMap(\.deviceID))
    return customers.map { customer in
      func entitlements(with purchase: StoredSubscription) -> EntitlementsResponse {
        var set = records[customer]
        set.subscriptions.removeAll { $0.originalTransactionID == purchase.originalTransactionID }
        set.shared.removeAll { $0.originalTransactionID == purchase.originalTransactionID }
        if purchase.customers.contains(customer) { set.subscriptions.append(purchase) }
        let own = set.customerRecords(
          of: app, for: customer, freeAccess: records.freeAccessByApp[app], at: instant)
        return EntitlementsResponse(app.entitlements(of: own, for: customer, at: instant))
      }
      return TransferredCustomer(
        customer: "\(customer.kindWord) \(customer.id)", before: entitlements(with: before),
        after: entitlements(with: after))
    }
  }

  /// The id may be that of a renewal instead of the original transaction.
  func unknownPurchase(_ id: String) async throws -> SupportRefusal {
    let rows = try await pool.query(
      "SELECT original_transaction_id FROM transactions WHERE transaction_id = \(id)")
    if let original = try rows.first?.decode("original_transaction_id", as: String.self), original != id {
      return .notFound("\(id) is a transaction of the purchase \(original): use that id.")
    }
    return .notFound("There is no purchase with the originalTransactionID \(id).")
  }

  private func purchase(_ originalTransactionID: String) async throws -> StoredSubscription? {
    let answers = try await pool.withConnection { connection in
      try await connection.pipeline([
        SubscriptionRows.select([originalTransactionID]), HolderRows.select([originalTransactionID]),
      ])
    }
    guard var stored = try answers[0].first.map(SubscriptionRows.decode) else { return nil }
    stored.holders = try answers[1].map { try HolderRows.decode($0).holder }
    return stored
  }
}

extension StoredSubscription {
  /// The purchase after a transfer that is not carried out.
  fileprivate func foreseen(_ entry: LedgerEntry, in app: App) -> StoredSubscription {
    guard let claim = entry.transfer?.claim(owner: owner, holders: holders, in: app, at: entry.instant) else {
      return self
    }
    var after = self
    after.owner = claim.outcome.owner
    after.holders = claim.holders
    return after
  }
}

/// The result of ``TransferRequest``.
package struct TransferResult: Sendable {
  /// The purchase.
  let originalTransactionID: String
  /// Its product.
  let productID: String
  /// The app.
  let bundleID: String
  /// The previous owner; `nil` if there was none.
  let from: String?
  /// The owner.
  let to: String
  /// Whether this call changed something, or would change it.
  let isChanged: Bool
  /// Whether nothing was written.
  let isDryRun: Bool
  /// The customers that lose or get the purchase: the previous owner first, the owner last.
  let customers: [TransferredCustomer]
  /// The App Store's questions about refunds of the purchase that wait for an answer.
  let openRefundRequests: [ReportedRefundRequest]
}

/// A customer before and after a transfer.
struct TransferredCustomer: Sendable {
  var customer: String
  var before: EntitlementsResponse
  var after: EntitlementsResponse
}

extension TransferResult: CustomStringConvertible {
  /// A line for the transfer, and two for each customer.
  package var description: String {
    var output = TerminalText()
    if isChanged, from == to {
      let verb = isDryRun ? "would stay" : "stays"
      output.line("\(originalTransactionID): \(verb) with \(to), now by support's decision", indent: 0)
    } else if isChanged {
      let verb = isDryRun ? "would be transferred" : "transferred"
      output.line("\(originalTransactionID): \(verb) \(from.map { "from \($0) " } ?? "")to \(to)", indent: 0)
    } else {
      output.line("\(originalTransactionID): already belongs to \(to)", indent: 0)
    }
    output.line("product \(productID) of \(bundleID)")
    for customer in customers {
      output.line(customer.customer)
      output.line("before: \(customer.before.summary)", indent: 4)
      output.line("after:  \(customer.after.summary)", indent: 4)
    }
    if !openRefundRequests.isEmpty {
      output.line("OPEN REFUND REQUEST: the former owner may have asked for the money back.")
    }
    for refund in openRefundRequests { refund.write(to: &output) }
    return output.text
  }
}

extension EntitlementsResponse {
  /// The access in a few words.
  fileprivate var summary: String {
    guard isAccessGranted else { return "no access (\(status))" }
    return "\(tier.map { "\($0), " } ?? "")\(status)\(validUntil.map { ", until \($0.rfc3339)" } ?? "")"
  }
}

extension TransferResult: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("bundleID", bundleID)
      json.member("customers", customers)
      json.member("from", from)
      json.member("isChanged", isChanged)
      json.member("isDryRun", isDryRun)
      json.member("openRefundRequests", openRefundRequests)
      json.member("originalTransactionID", originalTransactionID)
      json.member("productID", productID)
      json.member("to", to)
    }
  }
}

extension TransferredCustomer: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("after", after)
      json.member("before", before)
      json.member("customer", customer)
    }
  }
}
