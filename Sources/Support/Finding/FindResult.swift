import Foundation
import HTTP
import JSON
import Ledger
import Postgres
import Subscriptions
import Text

/// What an id names.
package enum FoundKind: String, Sendable {
  case user, device, childDevice, transaction, order, request, email

  /// The kind in words.
  package var words: String {
    switch self {
    case .user: "user"
    case .device: "device"
    case .childDevice: "paired device"
    case .transaction: "transaction"
    case .order: "order"
    case .request: "refused request"
    case .email: "e-mail address"
    }
  }
}

/// The result of a search for an id.
package struct FindResult: Sendable {
  /// The kinds of answers.
  package enum Outcome: String, Sendable {
    /// The database has the id, or the App Store told.
    case found
    /// The text has the form of an id, and nothing has it.
    case neverSeen
    /// The text is no id of these apps.
    case notAnID
    /// The database does not have the id, and the App Store may.
    case askApple
  }

  /// The text that was searched for.
  package let asked: String
  package let outcome: Outcome
  /// The id in the spelling that was found.
  package var id: String
  /// The answer in a sentence.
  package let detail: String
  /// The matches. If nothing was found, at most the refused requests that name the id.
  package var search = CustomerSearch()

  /// Whether something has the id.
  package var isFound: Bool { outcome == .found }

  /// Whether the id is found as that of a refused request alone.
  var isRequest: Bool { search.kinds == [.request] }

  /// The result with the matches of another search for the same text.
  func with(_ other: FindResult) -> FindResult {
    guard other.isFound else {
      return FindResult(
        asked: asked, outcome: outcome, id: id, detail: "\(detail); \(other.detail)", search: search)
    }
    var search = search
    for kind in other.search.kinds { search.add(other.search.customers, as: kind) }
    return FindResult(
      asked: asked, outcome: outcome, id: id, detail: "\(detail), \(other.detail)", search: search)
  }
}

extension FindResult: CustomStringConvertible {
  /// Text for a terminal with 80 columns.
  package var description: String {
    var output = TerminalText()
    output.member(isFound ? "found" : outcome.words, detail)
    for match in search.customers {
      output.member("customer", "\(match.customer.kindWord) \(match.customer.id) (\(match.bundleID))")
    }
    search.writeParents(to: &output)
    for purchase in search.purchases { output.member("purchase", purchase) }
    for transaction in search.transactions { output.member("transaction", transaction.description) }
    if !search.refusals.isEmpty { output.heading("refused requests (UTC)") }
    for attempt in search.refusals { attempt.write(to: &output) }
    return output.text
  }
}

extension CustomerSearch {
  /// Writes the customers with a paired device of the id that are not among ``customers``.
  func writeParents(to output: inout TerminalText) {
    for parent in parents where !customers.contains(parent) {
      output.member("paired with", "\(parent.customer.id) (\(parent.bundleID))")
    }
    guard parentsHidden > 0 else { return }
    output.member("paired with", "\(parentsHidden) more \(parentsHidden == 1 ? "device" : "devices")")
  }
}

extension FindResult.Outcome {
  fileprivate var words: String {
    switch self {
    case .found: "found"
    case .neverSeen: "never seen"
    case .notAnID: "no id"
    case .askApple: "ask Apple"
    }
  }
}

extension FindResult: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("asked", asked)
      json.member("customers", search.customers)
      json.member("detail", detail)
      json.member("id", id)
      json.member("kinds", search.kinds.map(\.rawValue).sorted())
      json.member("outcome", outcome.rawValue)
      json.member("parents", search.parents)
      json.member("parentsHidden", search.parentsHidden)
      json.member("purchases", search.purchases)
      json.member("refusedAttempts", search.refusals)
      json.member("transactions", search.transactions)
    }
  }
}

extension CustomerSearch.Match: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("bundleID", bundleID)
      json.member("customer", customer.id)
      json.member("kind", customer.kindWord)
    }
  }
}

/// A transaction that an order id or a transaction id names.
package struct NamedTransaction: Sendable, Hashable {
  package var transactionID: String
  /// `purchase` or `renewal`.
  package var event: String
  package var productID: String
  package var purchaseDate: Date
  package var revokedAt: Date?
  /// The price with its currency; `nil` if Apple told none.
  package var price: String?

  static func select(_ transactionIDs: [String]) -> Postgres.Query {
    """
    SELECT transaction_id, event, product_id, purchase_date, revoked_at, price || ' ' || currency AS price
    FROM support_transactions WHERE transaction_id = ANY(\(transactionIDs)) ORDER BY purchase_date, transaction_id
    """
  }

  /// Decodes a row of ``select(_:)``.
  init(_ row: Row) throws {
    transactionID = try row.decode("transaction_id")
    event = try row.decode("event")
    productID = try row.decode("product_id")
    purchaseDate = try row.decode("purchase_date")
    revokedAt = try row.decode("revoked_at")
    price = try row.decode("price")
  }

  /// One line.
  package var description: String {
    "\(event) of \(productID), \(purchaseDate.rfc3339)\(price.map { ", \($0)" } ?? "")"
      + (revokedAt.map { ", refunded or revoked at \($0.rfc3339)" } ?? "")
  }
}

extension NamedTransaction: JSONWritable {
  /// Writes one object.
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("event", event)
      json.member("price", price)
      json.member("productID", productID)
      json.member("purchaseDate", purchaseDate)
      json.member("revokedAt", revokedAt)
      json.member("transactionID", transactionID)
    }
  }
}
