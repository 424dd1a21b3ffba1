/// The media type in `Content-Type` (RFC 9110 §8.3.1).
enum MediaType {
  /// Whether it is `application/json` or any `…/…+json`, with or without parameters.
  static func isJSON(_ value: Span<UInt8>) -> Bool {
    var start = 0
    var end = value.firstIndex(of: UInt8(ascii: ";"), from: 0) ?? value.count
    while start < end, isSpace(value[start]) { start += 1 }
    while start < end, isSpace(value[end - 1]) { end -= 1 }
    let type = value.extracting(start..<end)
    if ASCII.isEqual(type, lowercase: "application/json") { return true }
    return type.count >= 5 && ASCII.isEqual(type.extracting((type.count - 5)...), lowercase: "+json")
  }

  private static func isSpace(_ byte: UInt8) -> Bool { byte == ASCII.space || byte == ASCII.tab }
}
