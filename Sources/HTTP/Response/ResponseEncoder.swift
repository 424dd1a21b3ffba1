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
  /// - Parameter dateField: the whole line, as ``DateField`` makes it.
  /// - Throws: if a field's value holds CR, LF or NUL, which would let whoever chose it write further
  ///   fields or answers. Nothing has been appended then.
  static func encode(
    _ response: Response, form: ConnectionState.AnswerForm, requestID: RequestID, dateField: [UInt8],
    to output: inout [UInt8]
  ) throws(UnsafeField) {
    let start = output.count
    output.append(contentsOf: StatusLines.line(for: response.status))
    for field in response.headers where !isReserved(field.name) {
      let isSafe = field.withUnsafeBytesOfValue { value in
        append(name: field.name.rawName, value: value, to: &output)
      }
      guard isSafe else {
        output.removeSubrange(start...)
        throw UnsafeField(name: field.name.rawName)
      }
    }
    output.append(contentsOf: dateField)
    output.append("X-Request-ID: ")
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

  /// - Returns: whether the value holds no byte that ends it early.
  static func append(
    name: String, value: UnsafeBufferPointer<UInt8>, to output: inout [UInt8]
  ) -> Bool {
    for byte in value where byte == 0 || byte == ASCII.carriageReturn || byte == ASCII.lineFeed {
      return false
    }
    output.append(contentsOf: name.utf8)
    output.append(": ")
    output.append(contentsOf: value)
    output.append("\r\n")
    return true
  }

  /// Whether the server writes this field itself.
  private static func isReserved(_ name: HTTPField.Name) -> Bool {
    switch name.canonicalName {
    case "content-length", "transfer-encoding", "connection", "date", "x-request-id", "keep-alive": true
    default: false
    }
  }
}

extension [UInt8] {
  @inline(__always)
  mutating func append(_ text: StaticString) {
    text.withUTF8Buffer { append(contentsOf: $0) }
  }
}
