import Testing

/// Requests that other HTTP implementations frame differently. The server must refuse each and must not decode the
/// bytes behind it as a request.
struct RefusedRequest: Sendable, CustomTestStringConvertible {
  let name: String
  let bytes: [UInt8]
  let status: Int

  init(_ name: String, status: Int = 400, _ text: String) {
    self.init(name, status: status, bytes: Array(text.utf8))
  }

  init(_ name: String, status: Int = 400, bytes: [UInt8]) {
    self.name = name
    self.status = status
    self.bytes = bytes
  }

  var testDescription: String { name }

  /// The smuggled request.
  static let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

  /// A `POST` with these header lines and this body, and a request that hides behind it.
  private static func post(
    _ name: String, status: Int = 400, _ lines: String, body: String = ""
  ) -> RefusedRequest {
    RefusedRequest(
      name, status: status, "POST /echo HTTP/1.1\r\nHost: a\r\n\(lines)\r\n\r\n\(body)\(smuggled)")
  }

  /// A chunked `POST` with this body, and a request that hides behind it.
  private static func chunks(_ name: String, status: Int = 400, _ body: String) -> RefusedRequest {
    post(name, status: status, "Transfer-Encoding: chunked", body: body)
  }

  /// A `GET` with these header lines.
  private static func get(_ name: String, status: Int = 400, _ lines: String) -> RefusedRequest {
    RefusedRequest(name, status: status, "GET /echo HTTP/1.1\r\n\(lines)\r\n\r\n\(smuggled)")
  }

  static let all = [
    bothLengths, contentLengths, transferEncodings, chunkFraming, chunkExtensions, lines, hosts, starts,
    limits,
  ].flatMap { $0 }

  static let bothLengths: [RefusedRequest] = [
    post("CL.TE", "Content-Length: 6\r\nTransfer-Encoding: chunked", body: "0\r\n\r\nX"),
    post("TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 3", body: "8\r\nSMUGGLED\r\n0\r\n\r\n"),
    post("CL 0 with TE", "Content-Length: 0\r\nTransfer-Encoding: chunked", body: "0\r\n\r\n"),
    post(
      "TE.TE, one unknown", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x", body: "0\r\n\r\n"),
    post("TE twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", body: "0\r\n\r\n"),
    post("TE in another case, with CL", "transfer-ENCODING: CHUNKED\r\ncontent-LENGTH: 5", body: "0\r\n\r\n"),
  ]

  static let contentLengths: [RefusedRequest] = [
    post("CL.CL, differing", "Content-Length: 8\r\nContent-Length: 7", body: "12345678"),
    post("CL.CL, equal", "Content-Length: 5\r\nContent-Length: 5", body: "12345"),
    post("CL list, equal", "Content-Length: 5, 5", body: "12345"),
    post("CL list, differing", "Content-Length: 5, 6", body: "12345"),
    post("CL with plus", "Content-Length: +5", body: "12345"),
    post("CL negative", "Content-Length: -5", body: "12345"),
    post("CL with a space inside", "Content-Length: 5 5", body: "12345"),
    post("CL empty", "Content-Length: ", body: ""),
    post("CL hexadecimal", "Content-Length: 0x5", body: "12345"),
    post("CL with a letter", "Content-Length: 5a", body: "12345"),
    post("CL with a fraction", "Content-Length: 5.0", body: "12345"),
    post("CL with an underscore", "Content-Length: 1_0", body: "1234567890"),
    post("CL quoted", "Content-Length: \"5\"", body: "12345"),
    post("CL that overflows 63 bits", "Content-Length: 9223372036854775808", body: "12345"),
    post("CL that overflows 64 bits", "Content-Length: 18446744073709551621", body: "12345"),
    post("CL of 100 digits", "Content-Length: \(String(repeating: "9", count: 100))", body: "12345"),
    post("CL of many zeros", "Content-Length: \(String(repeating: "0", count: 40))5", body: "12345"),
    post("CL in other digits", "Content-Length: \u{0665}", body: "12345"),
    post("CL beyond the route's limit", status: 413, "Content-Length: 65537", body: "12345"),
  ]

  static let transferEncodings: [RefusedRequest] = [
    post("TE identity", status: 501, "Transfer-Encoding: identity"),
    post("TE gzip", status: 501, "Transfer-Encoding: gzip", body: "0\r\n\r\n"),
    post("TE gzip, chunked", status: 501, "Transfer-Encoding: gzip, chunked", body: "0\r\n\r\n"),
    post("TE chunked, gzip", "Transfer-Encoding: chunked, gzip", body: "0\r\n\r\n"),
    post("TE chunked, identity", "Transfer-Encoding: chunked, identity", body: "0\r\n\r\n"),
    post("TE chunked, chunked", "Transfer-Encoding: chunked, chunked", body: "0\r\n\r\n"),
    post("TE xchunked", status: 501, "Transfer-Encoding: xchunked", body: "0\r\n\r\n"),
    post("TE chunkedx", status: 501, "Transfer-Encoding: chunkedx", body: "0\r\n\r\n"),
    post("TE with a parameter", "Transfer-Encoding: chunked;q=1", body: "0\r\n\r\n"),
    post("TE quoted", "Transfer-Encoding: \"chunked\"", body: "0\r\n\r\n"),
    post("TE in two words", "Transfer-Encoding: chunked chunked", body: "0\r\n\r\n"),
    post("TE empty", "Transfer-Encoding:", body: "0\r\n\r\n"),
    post("TE with an empty element", "Transfer-Encoding: , chunked", body: "0\r\n\r\n"),
    post("TE with a trailing comma", "Transfer-Encoding: chunked,", body: "0\r\n\r\n"),
    post("TE with a vertical tab", "Transfer-Encoding: \u{0B}chunked", body: "0\r\n\r\n"),
    post("TE with a NUL", "Transfer-Encoding: chunked\0", body: "0\r\n\r\n"),
    post("TE with a space before the colon", "Transfer-Encoding : chunked", body: "0\r\n\r\n"),
    post("TE with a tab before the colon", "Transfer-Encoding\t: chunked", body: "0\r\n\r\n"),
    post("TE folded", "Transfer-Encoding:\r\n chunked", body: "0\r\n\r\n"),
    post("TE after a bare LF", "X: y\nTransfer-Encoding: chunked", body: "0\r\n\r\n"),
    post("TE after a bare CR", "X: y\rTransfer-Encoding: chunked", body: "0\r\n\r\n"),
    RefusedRequest(
      "TE in HTTP/1.0",
      "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n\(smuggled)"
    ),
  ]

  static let chunkFraming: [RefusedRequest] = [
    chunks("size with plus", "+5\r\nhello\r\n0\r\n\r\n"),
    chunks("size negative", "-5\r\nhello\r\n0\r\n\r\n"),
    chunks("size with 0x", "0x5\r\nhello\r\n0\r\n\r\n"),
    chunks("size with a space before", " 5\r\nhello\r\n0\r\n\r\n"),
    chunks("size with a space after", "5 \r\nhello\r\n0\r\n\r\n"),
    chunks("size with a tab after", "5\t\r\nhello\r\n0\r\n\r\n"),
    chunks("size empty", "\r\nhello\r\n0\r\n\r\n"),
    chunks("size not hexadecimal", "G\r\nhello\r\n0\r\n\r\n"),
    chunks("size that overflows", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
    chunks("size beyond the limit", status: 413, "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"),
    chunks("size of many zeros", "00000000000000005\r\nhello\r\n0\r\n\r\n"),
    chunks("bare LF after the size", "5\nhello\r\n0\r\n\r\n"),
    chunks("bare CR after the size", "5\rhello\r\n0\r\n\r\n"),
    chunks("bare LF after the data", "5\r\nhello\n0\r\n\r\n"),
    chunks("no end after the data", "5\r\nhello0\r\n\r\n"),
    chunks("more data than announced", "5\r\nhello!\r\n0\r\n\r\n"),
    chunks("less data than announced", "6\r\nhello\r\n0\r\n\r\n"),
    chunks("last chunk with a bare LF", "0\n\n"),
    chunks("trailer with a bare LF", "0\r\nA: b\n\r\n"),
    chunks("trailer with a space before the colon", "0\r\nA : b\r\n\r\n"),
    chunks("trailer that frames", "0\r\nContent-Length: 5\r\n\r\n"),
    chunks("trailer that frames again", "0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    chunks("trailer without a colon", "0\r\nGET /smuggled HTTP/1.1\r\n\r\n"),
  ]

  /// A chunk of five bytes with these bytes after its size.
  private static func extended(_ name: String, status: Int = 400, _ text: String) -> RefusedRequest {
    chunks("chunk extension \(name)", status: status, "5\(text)\r\nhello\r\n0\r\n\r\n")
  }

  static let chunkExtensions: [RefusedRequest] = [
    extended("without a name", ";"),
    extended("without a name, after another", ";a;"),
    extended("without a name, before another", ";;a"),
    extended("of white space", "; "),
    extended("without a semicolon", " a=b"),
    extended("with white space after the name", ";a "),
    extended("with a tab after the value", ";a=b\t"),
    extended("with white space after the quoted value", ";a=\"b\" "),
    extended("without a value", ";a="),
    extended("without a value, before another", ";a=;b"),
    extended("with a value and no name", ";=b"),
    extended("with two values", ";a=b=c"),
    extended("with two words for a name", ";a b"),
    extended("with two words for a value", ";a=b c"),
    extended("with a slash in its name", ";a/b"),
    extended("with a colon in its value", ";a=b:c"),
    extended("with a quoted name", ";\"a\"=b"),
    extended("with a quote inside a token", ";a=b\"c\""),
    extended("with a token behind a quoted value", ";a=\"b\"c"),
    extended("with two quoted values", ";a=\"b\"\"c\""),
    extended("with an open quote", ";a=\"b"),
    extended("with a quote that an escape keeps open", ";a=\"b\\\""),
    extended("with a quoted line end", ";a=\"\r\n\""),
    extended("with a quoted bare LF", ";a=\"\n\""),
    extended("with a quoted bare CR", ";a=\"\r\""),
    extended("with an escaped CR", ";a=\"\\\r\n\""),
    extended("with an escaped LF", ";a=\"\\\n\""),
    extended("with a quoted NUL", ";a=\"\0\""),
    extended("with a quoted DEL", ";a=\"\u{7F}\""),
    extended("with a NUL in its name", ";a\0"),
    extended("with a name beyond ASCII", ";\u{E9}"),
    extended("with a value beyond ASCII", ";a=\u{E9}"),
    extended("with a bare CR inside", ";a\r=b"),
    extended("with a bare LF inside", ";a\n=b"),
    extended("with CR CR LF", ";a\r"),
    chunks("chunk extension that ends with a bare LF", "5;a=b\nhello\r\n0\r\n\r\n"),
    chunks("chunk extension that hides a chunk behind a bare LF", "5;\n0\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk extension without a size", ";a=b\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk extension of the last chunk, malformed", "5\r\nhello\r\n0;\r\n\r\n"),
    chunks("chunk extension behind a size beyond the limit", status: 413, "FFFFFFFF;a=b\r\nhello\r\n"),
  ]

  static let lines: [RefusedRequest] = [
    RefusedRequest("line ends with bare LF", "GET /echo HTTP/1.1\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("head ends with bare LF", "GET /echo HTTP/1.1\r\nHost: a\r\n\n\(smuggled)"),
    RefusedRequest("line ends with bare CR", "GET /echo HTTP/1.1\rHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("line ends with CR CR LF", "GET /echo HTTP/1.1\r\r\nHost: a\r\n\r\n\(smuggled)"),
    get("field ends with bare LF", "Host: a\nX: y"),
    get("field ends with CR CR LF", "Host: a\r\r\nX: y"),
    get("bare CR in a value", "Host: a\r\nX: a\rb"),
    get("space before the colon", "Host: a\r\nX : y"),
    get("Content-Length with a space before the colon", "Host: a\r\nContent-Length : 5"),
    get("obs-fold with a space", "Host: a\r\nX: y\r\n z"),
    get("obs-fold with a tab", "Host: a\r\nX: y\r\n\tz"),
    get("space before the first field", " Host: a\r\nX: y"),
    get("field without a colon", "Host: a\r\nX"),
    get("field without a name", "Host: a\r\n: y"),
    get("name with a space", "Host: a\r\nX Y: z"),
    get("name with a slash", "Host: a\r\nX/Y: z"),
    get("name with a bracket", "Host: a\r\n{X}: z"),
    get("name beyond ASCII", "Host: a\r\nContent-Length\u{E9}: 5"),
    get("NUL in a name", "Host: a\r\nX\0: y"),
    get("NUL in a value", "Host: a\r\nX: a\0b"),
    get("control byte in a value", "Host: a\r\nX: a\u{1B}b"),
    get("DEL in a value", "Host: a\r\nX: a\u{7F}b"),
    get("unknown expectation", status: 417, "Host: a\r\nExpect: 200-ok"),
  ]

  static let hosts: [RefusedRequest] = [
    RefusedRequest("no Host", "GET /echo HTTP/1.1\r\n\r\n\(smuggled)"),
    get("two Hosts, equal", "Host: a\r\nHost: a"),
    get("two Hosts, differing", "Host: a\r\nhost: b"),
    get("Host empty", "Host: "),
    get("Host with a path", "Host: a/b"),
    get("Host with user information", "Host: b@a"),
    get("Host list", "Host: a, b"),
    get("Host with a space", "Host: a b"),
    get("Host with a bad port", "Host: a:80x"),
    get("Host with an empty port", "Host: a:"),
    get("Host with a port too large", "Host: a:65536"),
    get("Host with two ports", "Host: a:80:90"),
    get("Host with a bad escape", "Host: a%zz"),
    get("Host with a broken IPv6 address", "Host: [::1"),
    get("Host with a letter after IPv6", "Host: [::1]a"),
    RefusedRequest(
      "absolute form without Host", "GET http://a/echo HTTP/1.1\r\n\r\n\(smuggled)"),
    RefusedRequest(
      "absolute form with a broken host", "GET http://a:x/echo HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest(
      "absolute form with an empty host", "GET http:///echo HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
  ]

  static let starts: [RefusedRequest] = [
    RefusedRequest("space before the method", " GET /echo HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("two spaces", "GET  /echo HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("two spaces before the version", "GET /echo  HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("tab for space", "GET\t/echo\tHTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("space at the end of the line", "GET /echo HTTP/1.1 \r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("space in the target", "GET /ec ho HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("no version", "GET /echo\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("method with a colon", "GE:T /echo HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("NUL in the method", "G\0T /echo HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("NUL in the target", "GET /ec\0ho HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("DEL in the target", "GET /ec\u{7F}ho HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("target beyond ASCII", "GET /\u{E9} HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("fragment in the target", "GET /echo#x HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("target without a slash", "GET echo HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("target with another scheme", "GET ftp://a/echo HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("asterisk for GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("tunnel", status: 501, "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("version in lower case", "GET /echo http/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("version with a space", "GET /echo HTTP/ 1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("version of three digits", "GET /echo HTTP/1.10\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("version 0.9", status: 505, "GET /echo HTTP/0.9\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("version 1.2", status: 505, "GET /echo HTTP/1.2\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("version 2.0", status: 505, "GET /echo HTTP/2.0\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("preface of HTTP/2", status: 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    RefusedRequest("two empty lines first", "\r\n\r\nGET /echo HTTP/1.1\r\nHost: a\r\n\r\n"),
    RefusedRequest("bare LF first", "\nGET /echo HTTP/1.1\r\nHost: a\r\n\r\n"),
    RefusedRequest("greeting of TLS", bytes: [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01]),
    RefusedRequest("header before the line", "Host: a\r\nGET /echo HTTP/1.1\r\n\r\n"),
  ]

  static let limits: [RefusedRequest] = [
    RefusedRequest(
      "line too long", status: 414,
      "GET /\(String(repeating: "a", count: 9000)) HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
    RefusedRequest("line without an end", status: 414, "GET /\(String(repeating: "a", count: 9000))"),
    get("field too long", status: 431, "Host: a\r\nX: \(String(repeating: "a", count: 17_000))"),
    RefusedRequest(
      "field without an end", status: 431,
      "GET /echo HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "a", count: 17_000))"),
    get("too many fields", status: 431, "Host: a\(String(repeating: "\r\nX: y", count: 64))"),
    get(
      "too many bytes of fields", status: 431,
      "Host: a\(String(repeating: "\r\nX: \(String(repeating: "y", count: 1000))", count: 17))"),
    chunks("too many trailers", status: 431, "0\r\n\(String(repeating: "A: b\r\n", count: 65))\r\n"),
    chunks("trailer too long", status: 431, "0\r\nA: \(String(repeating: "b", count: 17_000))\r\n\r\n"),
    chunks(
      "chunk extension too long", status: 431, "5;\(String(repeating: "a", count: 17_000))\r\nhello\r\n"),
    chunks(
      "chunk extensions too long together", status: 431,
      "\(String(repeating: "1;\(String(repeating: "a", count: 99))\r\nx\r\n", count: 170))0\r\n\r\n"),
    RefusedRequest(
      "method too long", status: 501,
      "\(String(repeating: "A", count: 40)) /echo HTTP/1.1\r\nHost: a\r\n\r\n\(smuggled)"),
  ]
}
