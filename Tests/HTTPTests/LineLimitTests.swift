import Testing

@testable import HTTP

/// Lines of about the length that is allowed, in one piece and byte by byte.
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
    (-3...3).flatMap { beyond in
      [
        requestLine(length: 40 + beyond) + end + "Host: a" + rest,
        "GET / HTTP/1.1\r\nHost: a\r\nA:" + String(repeating: "b", count: 80 - 27 + beyond) + end + rest,
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA:"
          + String(repeating: "b", count: 78 + beyond) + end + rest,
      ].map { Array($0.utf8) }
    }
  }

  private static func requestLine(length: Int) -> String {
    "GET /" + String(repeating: "a", count: length - 14) + " HTTP/1.1"
  }

  @Test(arguments: requests)
  func `the pieces in which a line arrives do not decide whether it is too long`(bytes: [UInt8]) {
    var whole = Conversation(limits: Self.limits)
    whole.receive(bytes)
    var single = Conversation(limits: Self.limits)
    for byte in bytes { single.receive([byte]) }
    #expect(single.events == whole.events)
  }

  @Test(arguments: [(40, false), (41, true)])
  func `a request line may be as long as the limit`(length: Int, isRefused: Bool) {
    var conversation = Conversation(limits: Self.limits)
    for byte in Array((Self.requestLine(length: length) + "\r\nHost: a" + Self.rest).utf8) {
      conversation.receive([byte])
    }
    #expect(conversation.events.contains(.refused(414, "uri_too_long")) == isRefused)
  }
}
