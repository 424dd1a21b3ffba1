import Testing

@testable import HTTP

/// The limit of the length of all chunk extensions in one body.
@Suite struct ChunkExtensionLimitTests {
  private static let limit = {
    var limits = HTTPLimits()
    limits.head = 100
    return limits
  }()

  /// A body of one-byte chunks, each with an extension of `extensionLength` bytes.
  private static func body(chunks: Int, extensionLength: Int) -> [UInt8] {
    let name = String(repeating: "a", count: extensionLength - 1)
    let chunk = "1;\(name)\r\nx\r\n"
    return Array(
      ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: a\r\n\r\n"
        + String(repeating: chunk, count: chunks) + "0\r\n\r\n").utf8)
  }

  @Test(arguments: [
    (1, 100, false), (1, 101, true), (10, 10, false), (11, 10, true), (50, 2, false), (51, 2, true),
  ])
  func `all chunk extensions of a body share the limit of a head, however the bytes are split`(
    chunks: Int, extensionLength: Int, isRefused: Bool
  ) {
    let bytes = Self.body(chunks: chunks, extensionLength: extensionLength)
    let expected: [Conversation.Event] =
      isRefused
      ? [.refused(431, "headers_too_large"), .finished]
      : [.request("POST", "/", Array(String(repeating: "x", count: chunks).utf8))]
    for split in 0..<bytes.count {
      var conversation = Conversation(limits: Self.limit)
      conversation.receive(Array(bytes[..<split]))
      conversation.receive(Array(bytes[split...]))
      #expect(conversation.events == expected, "split at \(split)")
    }
  }

  @Test func `the limit of chunk extensions applies to each body separately`() {
    let bytes = Self.body(chunks: 10, extensionLength: 10)
    var conversation = Conversation(limits: Self.limit)
    conversation.receive(bytes + bytes)
    #expect(conversation.answers.map(\.closes) == [false, false])
  }

  @Test func `the server does not buffer a chunk extension`() {
    var conversation = Conversation()
    conversation.receive("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    conversation.receive("5;" + String(repeating: "a", count: 10_000))
    #expect(conversation.state.bufferedBytes < 100)
  }
}
