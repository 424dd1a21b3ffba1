import FoundationEssentials
import Postgres
import Subscriptions

/// A purchase that a support person gives to another customer.
struct SupportTransfer: Sendable {
  var customer: Customer
  var author: SupportAuthor

  /// - Parameter owner: whose it is so far.
  func ownership(after owner: Ownership?) -> Ownership {
    // Done again, it is still taken from whom it was taken at first.
    if let owner, owner.customer == customer, case .support = owner.reason { return owner }
    let previous = owner?.customer
    return Ownership(
      customer: customer, reason: .support(takenFrom: previous == customer ? nil : previous))
  }
}

extension SupportDesk {
  /// Gives a purchase to another customer of the same app.
  ///
  /// The former owner's client cannot prove it back, whatever the app's transfer policy; only support can, or an
  /// `appAccountToken` that the App Store had not signed before.
  ///
  /// - Throws: ``SupportRefusal``, ``ServiceError`` and what the database throws.
  public func transfer(
    _ originalTransactionID: String, to customer: String, by author: SupportAuthor
  ) async throws -> TransferAnswer {
    guard let row = try await pool.query(SubscriptionRows.select([originalTransactionID])).first else {
      throw try await unknownPurchase(originalTransactionID)
    }
    let app = try app(named: SubscriptionRows.decode(row).bundleID)
    let customer = try app.customer(named: customer)
    var entry = LedgerEntry(app: app, originalTransactionID: originalTransactionID, instant: clock.now())
    entry.transfer = SupportTransfer(customer: customer, author: author)
    let receipt = try await ledger.record(entry)
    guard let stored = receipt.subscription else { throw try await unknownPurchase(originalTransactionID) }
    return TransferAnswer(
      originalTransactionID: originalTransactionID, bundleID: app.bundleID,
      from: receipt.previous?.owner?.customer.id, to: customer.id,
      isChanged: receipt.previous?.owner != stored.owner || receipt.previous?.customers != stored.customers)
  }

  /// A support person may have the id of one period at hand.
  private func unknownPurchase(_ id: String) async throws -> SupportRefusal {
    let rows = try await pool.query(
      "SELECT original_transaction_id FROM transactions WHERE transaction_id = \(id)")
    if let original = try rows.first?.decode(0, as: String.self), original != id {
      return .notFound("\(id) is a period of the purchase \(original): give that id.")
    }
    return .notFound("There is no purchase with the originalTransactionID \(id).")
  }
}

/// A transfer, as support reads it.
public struct TransferAnswer: Encodable, Sendable, CustomStringConvertible {
  /// The purchase.
  let originalTransactionID: String
  /// The app.
  let bundleID: String
  /// Whose it was; `null` for nobody's.
  @Nullable var from: String?
  /// Whose it is.
  let to: String
  /// Whether this call did something; it had been done already otherwise.
  let isChanged: Bool

  init(originalTransactionID: String, bundleID: String, from: String?, to customer: String, isChanged: Bool) {
    self.originalTransactionID = originalTransactionID
    self.bundleID = bundleID
    self.from = from
    to = customer
    self.isChanged = isChanged
  }

  /// One line.
  public var description: String {
    isChanged
      ? "\(originalTransactionID): from \(from ?? "nobody") to \(to)"
      : "\(originalTransactionID): had been transferred to \(to) already"
  }
}
