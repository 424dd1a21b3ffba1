import Testing

@testable import HTTP

/// Lines about as long as the limits, in one piece and byte by byte.
@Suite struct LineLimitTests {
  private static let limits = {
    var limits = HTTPLimits()
    limits.requestLine = 40
    limits.head = 80
    return limits
  }()

  private static let ends = ["\r\n", "\n", "\r\r\n", "\r\rx", "\rx\r\n", "xx\n"]
  private static let rest = "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"

  private static let requests: [[UInt8]] = ends.flatMap { end in
    (-3...3).flatMap { beyond in requests(beyond: beyond, end: end).map { Array($0.utf8) } }
  }

  /// A request line, a header line and a trailer, each this much longer than its limit.
  private static func requests(beyond: Int, end: String) -> [String] {
    let head = "POST / HTTP/1.1\r\nHost: a\r\n"
    let field = "A:" + String(repeating: "b", count: 50 + beyond)
    let trailer = "A:" + String(repeating: "b", count: 78 + beyond)
    return [
      "\(requestLine(length: 40 + beyond))\(end)Host: a\(rest)",
      "\(head)\(field)\(end)\(rest)",
      "\(head)Transfer-Encoding: chunked\r\n\r\n0\r\n\(trailer)\(end)\(rest)",
    ]
  }

  private static func requestLine(length: Int) -> String {
    "GET /" + String(repeating: "a", count: length - 14) + " HTTP/1.1"
  }

  @Test(arguments: requests)
  func `a line of about the limit has the same outcome in one piece and byte by byte`(bytes: [UInt8]) {
    var whole = Conversation(limits: Self.limits)
    whole.receive(bytes)
    var single = Conversation(limits: Self.limits)
    for byte in bytes { single.receive([byte]) }
    #expect(single.events == whole.events)
  }

  @Test(arguments: [(40, false), (41, true)])
  func `a request line of the limit is accepted, and a longer one gets 414`(length: Int, isRefused: Bool) {
    var conversation = Conversation(limits: Self.limits)
    let text = "\(Self.requestLine(length: length))\r\nHost: a\(Self.rest)"
    for byte in text.utf8 { conversation.receive([byte]) }
    #expect(conversation.events.contains(.refused(414, "uri_too_long")) == isRefused)
  }
}
