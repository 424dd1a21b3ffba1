import HTTPTypes

/// Encodes responses.
enum ResponseEncoder {
  /// A header field whose value has a control character, so that it could add fields or responses.
  struct UnsafeField: Error {
    let name: String
  }

  static let continueResponse = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)

  /// Appends the response to `output`.
  ///
  /// - Parameters:
  ///   - cacheControl: the `Cache-Control` of a response without one.
  ///   - dateField: the line of ``DateField``.
  /// - Throws: ``UnsafeField`` if a field's value has CR, LF, NUL or another control character (response splitting). Then
  ///   no byte was appended.
  static func encode(
    _ response: Response, options: ConnectionState.ResponseOptions, cacheControl: String? = nil,
    requestID: RequestID,
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
    if options.closes {
      output.append("\r\nConnection: close\r\n\r\n")
    } else if options.version == .http10 {
      output.append("\r\nConnection: keep-alive\r\n\r\n")
    } else {
      output.append("\r\n\r\n")
    }
    if hasContent, !options.omitsBody { output.append(contentsOf: response.body) }
  }

  /// - Returns: whether the field was appended; false if the value has a control character.
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
    // To compare lengths first is faster.
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
  /// Whether a byte is below the space and not a tab. The loop has no early exit, so that the compiler vectorizes it.
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
