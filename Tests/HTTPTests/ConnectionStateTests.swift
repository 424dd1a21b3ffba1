import HTTPTypes
import Testing

@testable import HTTP

@Suite struct ConnectionStateTests {
  private static let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  private static let got = Conversation.Event.request("GET", "/", [])

  @Test func `a pipelined request waits for the response to the current one`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get + "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(conversation.events == [Self.got])
    conversation.answer()
    #expect(conversation.events == [Self.got, .request("GET", "/2", [])])
  }

  @Test func `a malformed pipelined request is refused only after the response to the current one`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get + "NOT HTTP\r\n")
    #expect(conversation.events == [Self.got])
    conversation.answer()
    #expect(conversation.events == [Self.got, .refused(400, "invalid_request"), .finished])
  }

  @Test func `a pipelined request waits until the current response is sent`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get + Self.get)
    _ = conversation.state.beginResponse(now: conversation.now)
    conversation.state.outputBlocked(now: conversation.now)
    conversation.run()
    #expect(conversation.events == [Self.got])
    conversation.state.outputFlushed(now: conversation.now)
    conversation.run()
    #expect(conversation.events == [Self.got, Self.got])
  }

  @Test func `a connection stops reading when it has buffered 64 KiB of later requests`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get)
    #expect(conversation.state.wantsInput)
    conversation.receive([UInt8](repeating: UInt8(ascii: "A"), count: 65_536))
    #expect(!conversation.state.wantsInput)
  }

  @Test func `a client that expects 100 Continue gets it before it sends the body`() {
    var conversation = Conversation()
    conversation.receive("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n")
    #expect(conversation.events == [.continued])
    conversation.receive("hi")
    #expect(conversation.events == [.continued, .request("POST", "/", Array("hi".utf8))])
  }

  @Test func `a client that sends its body at once gets no 100 Continue`() {
    var conversation = Conversation()
    conversation.receive("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nh")
    conversation.receive("i")
    #expect(conversation.events == [.request("POST", "/", Array("hi".utf8))])
  }

  @Test func `a body beyond the route's limit is refused instead of 100 Continue`() {
    var conversation = Conversation()
    conversation.maximumBodyLength = 10
    conversation.receive("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n")
    #expect(conversation.events == [.refused(413, "payload_too_large"), .finished])
  }

  @Test func `chunks may add up to the route's body limit and not to more`() {
    for (body, isRefused) in [
      ("5\r\n12345\r\n5\r\n67890\r\n0\r\n\r\n", false), ("5\r\n12345\r\n6\r\n", true),
    ] {
      var conversation = Conversation()
      conversation.maximumBodyLength = 10
      conversation.receive("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
      #expect(conversation.events.contains(.refused(413, "payload_too_large")) == isRefused)
    }
  }

  @Test func `the response to HEAD has no body, and the response to the next GET has one`() {
    var conversation = Conversation()
    conversation.receive("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + Self.get)
    #expect(conversation.answers.map(\.omitsBody) == [true, false])
  }

  @Test func `the response to a connection's last allowed request closes it`() {
    var limits = HTTPLimits()
    limits.requestsPerConnection = 3
    var conversation = Conversation(limits: limits)
    conversation.receive(String(repeating: Self.get, count: 5))
    #expect(conversation.answers.map(\.closes) == [false, false, true])
    #expect(conversation.events.last == .finished)
  }

  // MARK: The end of the input

  @Test func `an idle connection closes when the client closes its sending half`() {
    var conversation = Conversation()
    conversation.end()
    #expect(conversation.events == [.closed(.finished)])
  }

  @Test func `a client that closes its sending half still gets all responses`() {
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
  func `an incomplete request is refused when the client closes its sending half`(half: String) {
    var conversation = Conversation()
    conversation.receive(half)
    #expect(conversation.events.isEmpty)
    conversation.end()
    #expect(conversation.events == [.refused(400, "invalid_request"), .finished, .closed(.finished)])
  }

  // MARK: Stopping

  @Test func `an idle connection closes when the server stops`() {
    var conversation = Conversation()
    conversation.receive(Self.get)
    conversation.state.drain()
    conversation.run()
    #expect(conversation.events == [Self.got, .closed(.shutdown)])
  }

  @Test func `a stopping server responds to the current request and drops pipelined ones`() {
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

  @Test func `a stopping server waits for the rest of a request that has begun to arrive`() {
    var conversation = Conversation()
    conversation.receive("GET / HT")
    conversation.state.drain()
    conversation.run()
    conversation.receive("TP/1.1\r\nHost: a\r\n\r\n")
    #expect(conversation.events == [Self.got, .finished])
    #expect(conversation.answers.map(\.closes) == [true])
  }
}
