import Foundation
import HTTPTypes
import Testing

@testable import HTTP

@Suite struct ResponseEncoderTests {
  private func encode(
    _ response: Response, _ options: ConnectionState.ResponseOptions = .init()
  ) throws -> String {
    var output: [UInt8] = []
    try ResponseEncoder.encode(
      response, options: options, requestID: .client("id"), dateField: DateField.line(784_111_777),
      to: &output)
    return String(decoding: output, as: UTF8.self)
  }

  @Test func `a response has Date, X-Request-ID and Content-Length`() throws {
    let lines = try encode(.text("hello")).components(separatedBy: "\r\n")
    #expect(
      lines == [
        "HTTP/1.1 200 OK", "Content-Type: text/plain; charset=utf-8", "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "X-Request-ID: id", "Content-Length: 5", "", "hello",
      ])
  }

  @Test func `the last response has Connection close, and an HTTP 1 point 0 response has keep-alive`() throws
  {
    #expect(try encode(.empty(.ok), .init(closes: true)).hasSuffix("\r\nConnection: close\r\n\r\n"))
    #expect(
      try encode(.empty(.ok), .init(version: .http10)).hasSuffix("\r\nConnection: keep-alive\r\n\r\n"))
    #expect(
      try encode(.empty(.ok), .init(version: .http10, closes: true)).hasSuffix(
        "\r\nConnection: close\r\n\r\n"))
  }

  @Test func `a response to HEAD has Content-Length and no body`() throws {
    #expect(try encode(.text("hello"), .init(omitsBody: true)).hasSuffix("Content-Length: 5\r\n\r\n"))
  }

  @Test func `a response with 204 or 304 has neither body nor Content-Length`() throws {
    for status in [HTTPResponse.Status.noContent, .notModified] {
      let text = try encode(Response(status: status, body: [1, 2]))
      #expect(!text.contains("Content-Length"))
      #expect(text.hasSuffix("X-Request-ID: id\r\n\r\n"))
    }
  }

  @Test func `a handler cannot set header fields that the server writes itself`() throws {
    var response = Response.text("x")
    response.headers[.contentLength] = "9"
    response.headers[.transferEncoding] = "chunked"
    response.headers[.connection] = "upgrade"
    response.headers[.date] = "never"
    let text = try encode(response)
    #expect(text.contains("\r\nContent-Length: 1\r\n"))
    for other in ["Content-Length: 9", "chunked", "upgrade", "never"] { #expect(!text.contains(other)) }
  }

  @Test func `a header value with a line break cannot add another field`() throws {
    // swift-http-types replaces line breaks by spaces; the encoder does not rely on that.
    var response = Response.empty(.ok)
    response.headers[.location] = "/a\r\nSet-Cookie: b"
    #expect(try !encode(response).contains("\r\nSet-Cookie"))
    for value in ["a\r\nb", "a\nb", "a\rb", "a\0b"] {
      var output: [UInt8] = []
      let isSafe = ResponseEncoder.append(name: "X", value: value, to: &output)
      #expect(!isSafe)
      #expect(output.isEmpty)
    }
  }

  @Test func `a status without a known reason phrase gets a status line, and an invalid one becomes 500`()
    throws
  {
    #expect(try encode(.empty(HTTPResponse.Status(code: 599))).hasPrefix("HTTP/1.1 599 "))
    #expect(try encode(.empty(HTTPResponse.Status(code: 999))).hasPrefix("HTTP/1.1 500 "))
  }

  @Test func `the Date header has the format of HTTP`() {
    let first = DateField(secondsSinceEpoch: 0)
    #expect(first.line == Array("Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Request-ID: ".utf8))
    let leap = DateField(secondsSinceEpoch: 1_709_164_800)
    #expect(leap.line == Array("Date: Thu, 29 Feb 2024 00:00:00 GMT\r\nX-Request-ID: ".utf8))
  }
}

@Suite struct RequestIDTests {
  @Test func `a generated request id has 32 hexadecimal digits`() {
    #expect(RequestID.generated(0x0123, .max).description == "0000000000000123ffffffffffffffff")
    #expect(RequestID.generated(0x0123_4567_89AB_CDEF, 9).description == "0123456789abcdef0000000000000009")
  }

  @Test func `a client's request id is used if it is short and has plain characters only`() {
    for (text, isTaken) in [
      ("a", true), ("A-z_0.9", true), (String(repeating: "x", count: 128), true), ("", false),
      (String(repeating: "x", count: 129), false), ("a b", false), ("a/b", false), ("\u{E9}", false),
      ("a\"", false),
    ] {
      #expect(RequestID.isAcceptable(text.utf8.span) == isTaken, "\(text)")
    }
  }
}

@Suite struct ASCIITests {
  @Test func `the character classes are those of the RFCs`() {
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    let token = Set((letters + "!#$%&'*+-.^_`|~").utf8)
    let target = Set((letters + "-._~" + "!$&'()*+,;=" + ":@/?%").utf8)
    for byte in UInt8.min ... .max {
      #expect(ASCII.isTokenCharacter(byte) == token.contains(byte), "\(byte)")
      #expect(ASCII.isTargetCharacter(byte) == target.contains(byte), "\(byte)")
      #expect(ASCII.isFieldValueCharacter(byte) == ((byte >= 0x20 && byte != 0x7F) || byte == 9), "\(byte)")
      #expect(ASCII.isDigit(byte) == (48...57).contains(byte), "\(byte)")
    }
  }

  @Test(arguments: [
    ("0", 0), ("7", 7), ("0012", 12), ("9223372036854775807", Int.max), ("9223372036854775808", nil),
    ("99999999999999999999", nil), ("", nil), ("+1", nil), ("-1", nil), (" 1", nil), ("1 ", nil),
    ("1_0", nil),
    ("0x1", nil), ("\u{0661}", nil),
  ])
  func `a decimal number is parsed from digits only`(text: String, expected: Int?) {
    #expect(DecimalDigits.parse(text.utf8.span) == expected)
  }

  @Test func `a number is written in decimal digits`() {
    for value in [0, 1, 9, 10, 99, 100, 65_536, Int.max] {
      var output: [UInt8] = []
      DecimalDigits.write(value, to: &output)
      #expect(String(decoding: output, as: UTF8.self) == String(value))
    }
  }
}
