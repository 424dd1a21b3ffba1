public import FoundationEssentials
public import JSON

extension Date: JSONWritable {
  /// A time as ``RFC3339`` writes it.
  public func write(to json: inout JSONWriter) {
    RFC3339.withUTF8(of: self) { json.string(utf8: $0) }
  }
}
