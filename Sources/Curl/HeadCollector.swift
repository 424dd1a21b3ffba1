import HTTPTypes

/// Collects the header fields of the final response from libcurl's header lines.
struct HeadCollector {
  private(set) var fields: HTTPFields = [:]
  private var length = 0
  private var isComplete = false

  private static let maximumLength = 64 << 10

  /// Whether the head exceeds the limit.
  var isTooLarge: Bool { length > Self.maximumLength }

  /// Processes a status line, a field, or the empty line at the end of a head. The heads of interim responses come first, and
  /// trailers come last; only the last head counts.
  mutating func take(_ line: UnsafeRawBufferPointer) {
    length += line.count
    let text = line.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }
    if text.starts(with: "HTTP/".utf8) {
      fields = [:]
      isComplete = false
      return
    }
    guard !text.isEmpty else {
      isComplete = true
      return
    }
    guard !isComplete, let colon = text.firstIndex(of: UInt8(ascii: ":")),
      let name = HTTPField.Name(String(decoding: text[..<colon], as: UTF8.self))
    else { return }
    let value = String(decoding: text[(colon + 1)...], as: UTF8.self)
    fields.append(HTTPField(name: name, value: trimmed(value)))
  }

  private func trimmed(_ value: String) -> String {
    func isBlank(_ character: Character) -> Bool { character == " " || character == "\t" }
    return String(value.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
  }
}
