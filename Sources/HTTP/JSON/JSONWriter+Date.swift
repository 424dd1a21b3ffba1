public import Foundation
public import JSON

extension Date: JSONWritable {
  /// Writes the time as in RFC 3339.
  public func write(to json: inout JSONWriter) {
    RFC3339.withUTF8(of: self) { json.string(utf8: $0) }
  }
}
