import Foundation
import HTTP
import JSON

extension RefusedAttempt: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("addressPrefix", addressPrefix)
      json.member("at", at)
      json.member("bundleID", bundleID)
      json.member("code", code)
      json.member("deviceID", deviceID)
      json.member("requestID", requestID)
      json.member("route", route)
      json.member("transactionID", transactionID)
      json.member("userID", userID?.uuidString.lowercased())
    }
  }
}

extension RefusedAttempt {
  /// Writes one paragraph.
  func write(to output: inout TerminalText) {
    var words = "\(code): \(route)"
    if let userID { words += ", user \(userID.uuidString.lowercased())" }
    if let deviceID { words += ", device \(deviceID)" }
    if let transactionID { words += ", transaction \(transactionID)" }
    output.line("\(at.rfc3339)  \(words), request \(requestID)", hanging: 22)
  }
}
