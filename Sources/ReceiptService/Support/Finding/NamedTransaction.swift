import Foundation
import JSON
import Postgres

/// A transaction that an order id or a transaction id names.
struct NamedTransaction: Sendable, Hashable {
  var transactionID: String
  /// `purchase` or `renewal`.
  var event: String
  var productID: String
  var purchaseDate: Date
  var revokedAt: Date?
  /// The price with its currency; `nil` if Apple told none.
  var price: String?

  static func select(_ transactionIDs: [String]) -> Query {
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
  var description: String {
    "\(event) of \(productID), \(purchaseDate.rfc3339)\(price.map { ", \($0)" } ?? "")"
      + (revokedAt.map { ", refunded or revoked at \($0.rfc3339)" } ?? "")
  }
}

extension NamedTransaction: JSONWritable {
  func write(to json: inout JSONWriter) {
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
