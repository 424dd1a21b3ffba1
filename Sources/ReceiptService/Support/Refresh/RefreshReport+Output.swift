import HTTP
import JSON

extension RefreshReport: CustomStringConvertible {
  /// Text for a terminal with 80 columns.
  public var description: String {
    var output = TerminalText()
    for purchase in purchases {
      output.heading("\(purchase.originalTransactionID) (\(purchase.bundleID), \(purchase.environment))")
      for change in purchase.changes {
        output.line(change.description)
      }
      if purchase.changes.isEmpty { output.line("nothing differed") }
    }
    for failure in failures { output.line("INCOMPLETE: \(failure)", indent: 0) }
    return output.text
  }
}

extension RefreshReport: JSONWritable {
  /// Writes one object.
  public func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("asked", asked)
      json.member("failures", failures)
      json.member("purchases", purchases)
    }
  }
}

extension RefreshedPurchase: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("bundleID", bundleID)
      json.member("changes", changes)
      json.member("environment", environment)
      json.member("originalTransactionID", originalTransactionID)
    }
  }
}

extension FieldChange: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("after", after)
      json.member("before", before)
      json.member("field", field)
    }
  }
}
