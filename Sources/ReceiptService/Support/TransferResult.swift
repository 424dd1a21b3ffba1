import Foundation
import HTTP
import JSON

/// The result of ``SupportDesk/transfer(_:to:by:isForced:isDryRun:)``.
public struct TransferResult: Sendable {
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
}

/// A customer before and after a transfer.
struct TransferredCustomer: Sendable {
  var customer: String
  var before: EntitlementsResponse
  var after: EntitlementsResponse
}

extension TransferResult: CustomStringConvertible {
  /// A line for the transfer, and two for each customer.
  public var description: String {
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
  public func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("bundleID", bundleID)
      json.member("customers", customers)
      json.member("from", from)
      json.member("isChanged", isChanged)
      json.member("isDryRun", isDryRun)
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
