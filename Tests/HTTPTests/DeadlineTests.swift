import HTTPTypes
import Testing

@testable import HTTP

/// Every timeout, with a clock that the test controls.
@Suite struct DeadlineTests {
  private static let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  private static let got = Conversation.Event.request("GET", "/", [])
  private static let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"

  private static func conversation() -> Conversation {
    var timeouts = HTTPTimeouts()
    timeouts.head = .seconds(10)
    timeouts.body = .seconds(20)
    timeouts.handler = .seconds(30)
    timeouts.write = .seconds(40)
    timeouts.idle = .seconds(60)
    timeouts.linger = .seconds(2)
    return Conversation(timeouts: timeouts)
  }

  @Test func `a client that sends nothing is disconnected after the idle timeout`() {
    var conversation = Self.conversation()
    conversation.advance(seconds: 59.9)
    #expect(conversation.events.isEmpty)
    conversation.advance(seconds: 0.1)
    #expect(conversation.events == [.closed(.deadline)])
  }

  @Test func `the idle timeout restarts with each response`() {
    var conversation = Self.conversation()
    conversation.advance(seconds: 50)
    conversation.receive(Self.get)
    conversation.advance(seconds: 59)
    #expect(conversation.events == [Self.got])
    conversation.advance(seconds: 1)
    #expect(conversation.events == [Self.got, .closed(.deadline)])
  }

  @Test func `a head that arrives byte by byte is refused at the head timeout`() {
    var conversation = Self.conversation()
    for byte in "GET / HTT".utf8 {
      conversation.receive([byte])
      conversation.advance(seconds: 1.1)
    }
    #expect(conversation.events.isEmpty)
    conversation.advance(seconds: 0.2)
    #expect(conversation.events == [.refused(408, "request_timeout"), .finished])
    #expect(conversation.answers.first?.closes == true)
  }

  @Test func `a body that arrives byte by byte is refused at the body timeout, which starts after the head`()
  {
    var conversation = Self.conversation()
    conversation.receive("POST / HTTP/1.1\r\n")
    conversation.advance(seconds: 9)
    conversation.receive("Host: a\r\nContent-Length: 100\r\n\r\n")
    for _ in 0..<19 {
      conversation.advance(seconds: 1)
      conversation.receive("x")
    }
    #expect(conversation.events.isEmpty)
    conversation.advance(seconds: 1)
    #expect(conversation.events == [.refused(408, "request_timeout"), .finished])
  }

  @Test func `a handler beyond its deadline is cancelled, and the connection stays open`() {
    var conversation = Self.conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get)
    conversation.advance(seconds: 29.9)
    #expect(conversation.events == [Self.got])
    conversation.advance(seconds: 0.1)
    #expect(conversation.events == [Self.got, .abandoned])
    #expect(conversation.answers.map(\.closes) == [false])
    conversation.receive(Self.get)
    #expect(conversation.events == [Self.got, .abandoned, Self.got])
  }

  @Test func `the handler's timeout starts at the end of the body`() {
    var conversation = Self.conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.post)
    conversation.advance(seconds: 19)
    conversation.receive(String(repeating: "x", count: 100))
    conversation.advance(seconds: 29)
    #expect(conversation.events.count == 1)
    conversation.advance(seconds: 1)
    #expect(conversation.events.last == .abandoned)
  }

  @Test func `a client that reads too slowly is disconnected at the write timeout`() {
    var conversation = Self.conversation()
    conversation.receive(Self.get)
    conversation.state.outputBlocked(now: conversation.now)
    conversation.advance(seconds: 39)
    conversation.state.outputBlocked(now: conversation.now)
    #expect(conversation.events == [Self.got])
    conversation.advance(seconds: 1)
    #expect(conversation.events == [Self.got, .closed(.deadline)])
  }

  @Test func `the idle timeout starts when the response is sent`() {
    var conversation = Self.conversation()
    conversation.receive(Self.get)
    conversation.state.outputBlocked(now: conversation.now)
    conversation.advance(seconds: 39)
    conversation.state.outputFlushed(now: conversation.now)
    conversation.run()
    conversation.advance(seconds: 59)
    #expect(!conversation.isClosed)
    conversation.advance(seconds: 1)
    #expect(conversation.isClosed)
  }

  @Test func `a client that does not close after the last response is disconnected after two seconds`() {
    var conversation = Self.conversation()
    conversation.receive("NOT HTTP\r\n")
    #expect(conversation.events == [.refused(400, "invalid_request"), .finished])
    conversation.advance(seconds: 1)
    conversation.receive(String(repeating: "more", count: 1000))
    #expect(!conversation.isClosed)
    conversation.advance(seconds: 1)
    #expect(conversation.events.last == .closed(.finished))
  }

  @Test func `the head timeout of a pipelined request starts at the previous response`() {
    var conversation = Self.conversation()
    conversation.answersAtOnce = false
    conversation.receive(Self.get + "GET /2")
    conversation.advance(seconds: 25)
    conversation.answer()
    conversation.advance(seconds: 9)
    #expect(conversation.events == [Self.got])
    conversation.advance(seconds: 1)
    #expect(conversation.events == [Self.got, .refused(408, "request_timeout"), .finished])
  }
}
