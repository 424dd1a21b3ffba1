import HTTP
import JSON
import Subscriptions

extension FindResult: CustomStringConvertible {
  /// Text for a terminal with 80 columns.
  public var description: String {
    var output = TerminalText()
    output.member(isFound ? "found" : outcome.words, detail)
    for match in search.customers {
      output.member("customer", "\(match.customer.kindWord) \(match.customer.id) (\(match.bundleID))")
    }
    for purchase in search.purchases { output.member("purchase", purchase) }
    for transaction in search.transactions { output.member("transaction", transaction.description) }
    if !search.refusals.isEmpty { output.heading("refused requests (UTC)") }
    for attempt in search.refusals { attempt.write(to: &output) }
    return output.text
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
  public func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("asked", asked)
      json.member("customers", search.customers)
      json.member("detail", detail)
      json.member("id", id)
      json.member("kinds", search.kinds.map(\.rawValue).sorted())
      json.member("outcome", outcome.rawValue)
      json.member("purchases", search.purchases)
      json.member("refusedAttempts", search.refusals)
      json.member("transactions", search.transactions)
    }
  }
}

extension CustomerSearch.Match: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("bundleID", bundleID)
      json.member("customer", customer.id)
      json.member("kind", customer.kindWord)
    }
  }
}
