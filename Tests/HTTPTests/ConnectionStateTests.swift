import HTTPTypes
import Testing

@testable import HTTP

@Suite struct ConnectionStateTests {
  private static let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  private static let got = Conversation.Event.request("GET", "/", [])

  @Test func `the next request waits for the answer to the current one`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get + "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(conversation.events == [Self.got])
    conversation.answer()
    #expect(conversation.events == [Self.got, .request("GET", "/2", [])])
  }

  @Test func `a fault behind a request is not looked at before that is answered`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get + "NOT HTTP\r\n")
    #expect(conversation.events == [Self.got])
    conversation.answer()
    #expect(conversation.events == [Self.got, .refused(400, "invalid_request"), .finished])
  }

  @Test func `the next request waits until the client has taken the answer`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get + Self.get)
    _ = conversation.state.answer(now: conversation.now)
    conversation.state.outputBlocked(now: conversation.now)
    conversation.run()
    #expect(conversation.events == [Self.got])
    conversation.state.outputDrained(now: conversation.now)
    conversation.run()
    #expect(conversation.events == [Self.got, Self.got])
  }

  @Test func `reading stops when too much waits`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get)
    #expect(conversation.state.wantsInput)
    conversation.receive([UInt8](repeating: UInt8(ascii: "A"), count: 65_536))
    #expect(!conversation.state.wantsInput)
  }

  @Test func `a client that waits is told to continue`() {
    var conversation = Conversation()
    conversation.receive("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n")
    #expect(conversation.events == [.continued])
    conversation.receive("hi")
    #expect(conversation.events == [.continued, .request("POST", "/", Array("hi".utf8))])
  }

  @Test func `a client that does not wait after all is not told to continue`() {
    var conversation = Conversation()
    conversation.receive("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nh")
    conversation.receive("i")
    #expect(conversation.events == [.request("POST", "/", Array("hi".utf8))])
  }

  @Test func `a body beyond the route's limit is refused before it is asked for`() {
    var conversation = Conversation()
    conversation.maximumBodyLength = 10
    conversation.receive("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n")
    #expect(conversation.events == [.refused(413, "payload_too_large"), .finished])
  }

  @Test func `chunks may add up to the limit and not to more`() {
    for (body, isRefused) in [
      ("5\r\n12345\r\n5\r\n67890\r\n0\r\n\r\n", false), ("5\r\n12345\r\n6\r\n", true),
    ] {
      var conversation = Conversation()
      conversation.maximumBodyLength = 10
      conversation.receive("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
      #expect(conversation.events.contains(.refused(413, "payload_too_large")) == isRefused)
    }
  }

  @Test func `the answer to HEAD has no body, and the next one has`() {
    var conversation = Conversation()
    conversation.receive("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + Self.get)
    #expect(conversation.answers.map(\.omitsBody) == [true, false])
  }

  @Test func `the last request of a connection is answered with its end`() {
    var limits = HTTPLimits()
    limits.requestsPerConnection = 3
    var conversation = Conversation(limits: limits)
    conversation.receive(String(repeating: Self.get, count: 5))
    #expect(conversation.answers.map(\.closes) == [false, false, true])
    #expect(conversation.events.last == .finished)
  }

  // MARK: The end of the input

  @Test func `an idle client that leaves is let go`() {
    var conversation = Conversation()
    conversation.end()
    #expect(conversation.events == [.closed(.finished)])
  }

  @Test func `a client that ends its half is still answered`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get + Self.get)
    conversation.end()
    #expect(conversation.events == [Self.got])
    conversation.answer()
    conversation.answer()
    #expect(conversation.answers.map(\.closes) == [false, true])
    #expect(conversation.events == [Self.got, Self.got, .finished, .closed(.finished)])
  }

  @Test(arguments: [
    "G", "GET / HTTP/1.1\r\nHost: a\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
  ])
  func `half a request is refused when the rest cannot come`(half: String) {
    var conversation = Conversation()
    conversation.receive(half)
    #expect(conversation.events.isEmpty)
    conversation.end()
    #expect(conversation.events == [.refused(400, "invalid_request"), .finished, .closed(.finished)])
  }

  // MARK: Stopping

  @Test func `an idle connection ends when the server stops`() {
    var conversation = Conversation()
    conversation.receive(Self.get)
    conversation.state.drain()
    conversation.run()
    #expect(conversation.events == [Self.got, .closed(.shutdown)])
  }

  @Test func `the request under way is the last one when the server stops`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get + Self.get)
    conversation.state.drain()
    conversation.run()
    #expect(conversation.events == [Self.got])
    conversation.answer()
    #expect(conversation.answers.map(\.closes) == [true])
    #expect(conversation.events == [Self.got, .finished])
  }

  @Test func `a request that has begun to arrive is awaited when the server stops`() {
    var conversation = Conversation()
    conversation.receive("GET / HT")
    conversation.state.drain()
    conversation.run()
    conversation.receive("TP/1.1\r\nHost: a\r\n\r\n")
    #expect(conversation.events == [Self.got, .finished])
    #expect(conversation.answers.map(\.closes) == [true])
  }
}
