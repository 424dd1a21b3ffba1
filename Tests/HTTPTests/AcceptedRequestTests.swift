import HTTPTypes
import Testing

@testable import HTTP

/// Requests that the server must accept, however the bytes are split.
@Suite struct AcceptedRequestTests {
  struct Accepted: Sendable, CustomTestStringConvertible {
    let name: String
    let bytes: [UInt8]
    let events: [Conversation.Event]

    init(_ name: String, _ text: String, _ events: Conversation.Event...) {
      self.name = name
      bytes = Array(text.utf8)
      self.events = events
    }

    var testDescription: String { name }
  }

  /// A chunked body of `hello` with these size lines.
  private static func extended(_ name: String, _ size: String, last: String = "0") -> Accepted {
    Accepted(
      "a chunk extension \(name)",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\(size)\r\nhello\r\n\(last)\r\n\r\n",
      .request("POST", "/", Array("hello".utf8)))
  }

  static let all: [Accepted] = [
    Accepted("plain", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", .request("GET", "/", [])),
    Accepted("an empty line first", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", .request("GET", "/", [])),
    Accepted(
      "white space around a value", "GET / HTTP/1.1\r\nHost: \t a \t\r\n\r\n", .request("GET", "/", [])),
    Accepted("an empty value", "GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", .request("GET", "/", [])),
    Accepted(
      "a value beyond ASCII", "GET / HTTP/1.1\r\nHost: a\r\nX: \u{E9}\r\n\r\n", .request("GET", "/", [])),
    Accepted("an unknown method", "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", .request("BREW", "/pot", [])),
    Accepted("a query", "GET /a?b=/c?d HTTP/1.1\r\nHost: a\r\n\r\n", .request("GET", "/a", [])),
    Accepted("absolute form", "GET http://b:80/a?c HTTP/1.1\r\nHost: a\r\n\r\n", .request("GET", "/a", [])),
    Accepted(
      "absolute form without a path", "GET http://b HTTP/1.1\r\nHost: a\r\n\r\n", .request("GET", "/", [])),
    Accepted(
      "absolute form with a query only", "GET http://b?c HTTP/1.1\r\nHost: a\r\n\r\n",
      .request("GET", "/", [])),
    Accepted(
      "absolute form of IPv6", "GET HTTPS://[::1]:3000/ HTTP/1.1\r\nHost: a\r\n\r\n", .request("GET", "/", [])
    ),
    Accepted("asterisk", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", .request("OPTIONS", "*", [])),
    Accepted(
      "a length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
      .request("POST", "/", Array("hello".utf8))),
    Accepted(
      "a length of zero", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", .request("POST", "/", [])
    ),
    Accepted(
      "a length with zeros before", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0005\r\n\r\nhello",
      .request("POST", "/", Array("hello".utf8))),
    Accepted(
      "a body of a GET", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
      .request("GET", "/", Array("abc".utf8))),
    Accepted(
      "chunks",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n00B\r\n, two words\r\n0\r\n\r\n",
      .request("POST", "/", Array("hello, two words".utf8))),
    Accepted(
      "no chunk but the last", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      .request("POST", "/", [])),
    Accepted(
      "chunks with trailers",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\nDigest: x\r\nB: \r\n\r\n",
      .request("POST", "/", [0x0A])),
    extended("with a value", "5;ext=1"),
    extended("without a value", "5;ext"),
    extended("with a quoted value", "5;a=\"b c;d=e\""),
    extended("with an empty quoted value", "5;a=\"\""),
    extended("with escapes in a quoted value", "5;a=\"\\\"\\\\\\;\""),
    extended("with a quoted tab and a byte beyond ASCII", "5;a=\"\t\u{E9}\""),
    extended("with white space around its delimiters", "5 \t; a = b ;\tc\t=\t\"d\" ; e"),
    extended("with every token character", "05;!#$%&'*+-.^_`|~09AZaz=!#$%&'*+-.^_`|~09AZaz"),
    extended("twice by one name", "5;a=1;a=2"),
    extended("of the last chunk", "5", last: "0;a;b=\"c\""),
    extended("of the last chunk, with a trailer", "5;a", last: "00;a=b\r\nDigest: x"),
    Accepted(
      "three in a row",
      "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiPUT /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nho\r\n0\r\n\r\n",
      .request("GET", "/1", []), .request("POST", "/2", Array("hi".utf8)),
      .request("PUT", "/3", Array("ho".utf8))),
    Accepted(
      "an empty line between two", "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
      .request("GET", "/1", []), .request("GET", "/2", [])),
    Accepted(
      "the first one says close",
      "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
      .request("GET", "/1", []), .finished),
    Accepted("HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", .request("GET", "/", []), .finished),
    Accepted(
      "HTTP/1.0 that stays", "GET /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\n",
      .request("GET", "/1", []), .request("GET", "/2", []), .finished),
    Accepted(
      "HTTP/1.0 that expects", "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
      .request("POST", "/", Array("x".utf8)), .finished),
    Accepted(
      "an expectation without a body", "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
      .request("GET", "/", [])),
    Accepted(
      "close among other options", "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, Close\r\n\r\n",
      .request("GET", "/", []), .finished),
    Accepted(
      "an upgrade that is not taken",
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
      .request("GET", "/", [])),
  ]

  @Test(arguments: all)
  func `an accepted request is decoded`(accepted: Accepted) {
    var conversation = Conversation()
    conversation.receive(accepted.bytes)
    #expect(conversation.events == accepted.events)
  }

  @Test(arguments: all)
  func `an accepted request is decoded alike at every split and byte by byte`(accepted: Accepted) {
    for split in 1..<accepted.bytes.count {
      var conversation = Conversation()
      conversation.receive(Array(accepted.bytes[..<split]))
      conversation.receive(Array(accepted.bytes[split...]))
      #expect(conversation.events == accepted.events, "split at \(split)")
    }
    var conversation = Conversation()
    for byte in accepted.bytes { conversation.receive([byte]) }
    #expect(conversation.events == accepted.events)
  }

  @Test(arguments: all)
  func `an accepted request without its last byte gets no response`(accepted: Accepted) {
    // The last request gets its response only with its last byte.
    var whole = Conversation()
    whole.receive(accepted.bytes)
    guard whole.events.last != .finished else { return }
    var conversation = Conversation()
    conversation.receive(Array(accepted.bytes.dropLast()))
    #expect(conversation.answers.count == whole.answers.count - 1)
  }
}
