import Foundation
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
  /// - Throws: ``UnsafeField`` if a field's value has CR, LF, NUL or another control character (response splitting).
  ///   Then no byte was appended.
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

/// The status lines of responses, encoded in advance for the usual statuses.
enum StatusLines {
  private static let prepared: [[UInt8]] = {
    let usual: [HTTPResponse.Status] = [
      .ok, .created, .accepted, .noContent, .movedPermanently, .found, .notModified, .temporaryRedirect,
      .permanentRedirect, .badRequest, .unauthorized, .forbidden, .notFound, .methodNotAllowed,
      .requestTimeout, .conflict, .contentTooLarge, .uriTooLong, .unsupportedMediaType, .expectationFailed,
      .unprocessableContent, .requestHeaderFieldsTooLarge, .tooManyRequests, .internalServerError,
      .notImplemented, .badGateway, .serviceUnavailable, .gatewayTimeout, .httpVersionNotSupported,
    ]
    return usual.reduce(into: [[UInt8]](repeating: [], count: 600)) { lines, status in
      lines[status.code] = make(status)
    }
  }()

  /// The line with CR LF. Clients ignore the reason phrase (RFC 9112 §4), so the usual one is sent.
  static func line(for status: HTTPResponse.Status) -> [UInt8] {
    // The grammar allows three digits.
    guard (100..<600).contains(status.code) else { return prepared[500] }
    let line = prepared[status.code]
    return line.isEmpty ? make(status) : line
  }

  private static func make(_ status: HTTPResponse.Status) -> [UInt8] {
    Array("HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n".utf8)
  }
}

/// The `Date` field of one second, and the name of the field after it.
struct DateField {
  let second: Int64
  let line: [UInt8]

  init(secondsSinceEpoch: Int64) {
    second = secondsSinceEpoch
    line = Self.line(secondsSinceEpoch)
  }

  /// The field for this second.
  static var current: DateField { DateField(secondsSinceEpoch: Int64(time(nil))) }

  /// `Date: Sun, 06 Nov 1994 08:49:37 GMT` (IMF-fixdate, RFC 9110 §5.6.7), and `X-Request-ID: ` on the next line, so that
  /// one copy writes both.
  static func line(_ secondsSinceEpoch: Int64) -> [UInt8] {
    let (days, secondOfDay) = secondsSinceEpoch.flooredDivision(by: 86_400)
    let date = CivilDate(daysSinceEpoch: days)
    // 1970-01-01 was a Thursday.
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][
      Int(days.flooredDivision(by: 7).remainder)]
    let month = [
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ][Int(date.month) - 1]
    let time = [secondOfDay / 3600, secondOfDay / 60 % 60, secondOfDay % 60].map(twoDigits)
      .joined(separator: ":")
    return Array(
      "Date: \(weekday), \(twoDigits(date.day)) \(month) \(date.year) \(time) GMT\r\nX-Request-ID: ".utf8)
  }

  private static func twoDigits(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
}
