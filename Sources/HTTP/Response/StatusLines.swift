import HTTPTypes

/// The status lines of all codes, ready to be sent.
enum StatusLines {
  private static let lines: [[UInt8]] = (100..<600).map { code in
    Array("HTTP/1.1 \(code) \(HTTPResponse.Status(code: code).reasonPhrase)\r\n".utf8)
  }

  /// The line with its CR LF. The phrase is the usual one: clients are told not to read it (RFC 9112 §4).
  static func line(for code: Int) -> [UInt8] {
    lines[(100..<600).contains(code) ? code - 100 : 400]
  }
}
