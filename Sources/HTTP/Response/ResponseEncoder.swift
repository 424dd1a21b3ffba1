import HTTPTypes

/// Turns responses into bytes.
enum ResponseEncoder {
  /// A header field that would end where its value does not.
  struct UnsafeField: Error {
    let name: String
  }

  static let continueResponse = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)

  /// Appends the response to `output`.
  ///
  /// - Parameters:
  ///   - cacheControl: the `Cache-Control` if the response does not name its own.
  ///   - dateField: the whole line, as ``DateField`` makes it.
  /// - Throws: if a field's value holds CR, LF, NUL or another control character, which would let whoever
  ///   chose it write further fields or answers. Nothing has been appended then.
  static func encode(
    _ response: Response, form: ConnectionState.AnswerForm, cacheControl: String? = nil, requestID: RequestID,
    dateField: [UInt8], to output: inout [UInt8]
  ) throws(UnsafeField) {
    let start = output.count
    output.append(contentsOf: StatusLines.line(for: response.status))
    var cacheControl = cacheControl
    for field in response.headers where !isReserved(field.name.canonicalName) {
      guard append(name: field.name.rawName, value: field.value, to: &output) else {
        output.removeSubrange(start...)
        throw UnsafeField(name: field.name.rawName)
      }
      if cacheControl != nil, field.name == .cacheControl { cacheControl = nil }
    }
    if let cacheControl, !append(name: "Cache-Control", value: cacheControl, to: &output) {
      output.removeSubrange(start...)
      throw UnsafeField(name: "Cache-Control")
    }
    output.append(contentsOf: dateField)
    requestID.write(to: &output)
    // RFC 9110 §8.6: 204 and 304 have no content, so no length either.
    let hasContent = response.status != .noContent && response.status != .notModified
    if hasContent {
      output.append("\r\nContent-Length: ")
      DecimalDigits.write(response.body.count, to: &output)
    }
    if form.closes {
      output.append("\r\nConnection: close\r\n\r\n")
    } else if form.version == .http10 {
      output.append("\r\nConnection: keep-alive\r\n\r\n")
    } else {
      output.append("\r\n\r\n")
    }
    if hasContent, !form.omitsBody { output.append(contentsOf: response.body) }
  }

  /// - Returns: whether the value holds no control character; else nothing has been appended.
  static func append(name: String, value: String, to output: inout [UInt8]) -> Bool {
    let bytes = value.utf8.span
    guard !bytes.containsControlCharacters else { return false }
    output.append(copying: name.utf8.span)
    output.append(": ")
    output.append(copying: bytes)
    output.append("\r\n")
    return true
  }

  /// Whether the server writes this field itself.
  private static func isReserved(_ name: String) -> Bool {
    // Their lengths tell most others apart, which is quicker than to compare texts.
    switch name.utf8.count {
    case 4: name == "date"
    case 10: name == "connection" || name == "keep-alive"
    case 12: name == "x-request-id"
    case 14: name == "content-length"
    case 17: name == "transfer-encoding"
    default: false
    }
  }
}

extension Span<UInt8> {
  /// Whether there is anything below the space but tabs. It looks at all bytes, so that it can do so many
  /// at a time.
  fileprivate var containsControlCharacters: Bool {
    withUnsafeBufferPointer { bytes in
      bytes.reduce(false) { found, byte in found || (byte < 0x20 && byte != ASCII.tab) }
    }
  }
}

extension [UInt8] {
  @inline(__always)
  mutating func append(_ text: StaticString) {
    text.withUTF8Buffer { append(contentsOf: $0) }
  }
}
