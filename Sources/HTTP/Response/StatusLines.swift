import HTTPTypes

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
