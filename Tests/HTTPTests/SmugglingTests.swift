import HTTPTypes
import Testing

@testable import HTTP

@Suite struct SmugglingTests {
  @Test(arguments: RefusedRequest.all)
  func `a smuggling request is refused once, and the following bytes are not decoded`(request: RefusedRequest)
  {
    var conversation = Conversation()
    conversation.receive(request.bytes)
    #expect(conversation.answers.count == 1)
    #expect(conversation.answers.first?.closes == true)
    #expect(conversation.events.count == 2)
    guard case .refused(let status, _)? = conversation.events.first else {
      Issue.record("It was not refused: \(conversation.events)")
      return
    }
    #expect(status == request.status)
    #expect(conversation.events.last == .finished)
    conversation.receive(RefusedRequest.smuggled)
    conversation.end()
    #expect(conversation.answers.count == 1)
    #expect(conversation.events.last == .closed(.finished))
  }

  @Test(arguments: RefusedRequest.all)
  func `a smuggling request behind a valid one is refused and closes the connection`(request: RefusedRequest)
  {
    var conversation = Conversation()
    conversation.receive(Array("GET /first HTTP/1.1\r\nHost: a\r\n\r\n".utf8) + request.bytes)
    // The status is not compared: an empty line is allowed before the first request only.
    #expect(conversation.answers.map(\.closes) == [false, true])
    #expect(conversation.events.first == .request("GET", "/first", []))
  }

  @Test(arguments: RefusedRequest.all)
  func `a smuggling request is refused alike at every split and byte by byte`(request: RefusedRequest) {
    var whole = Conversation()
    whole.receive(request.bytes)
    // Long requests are repetitive in the middle, so a few splits are enough.
    let splits = request.bytes.count < 2000 ? Array(1..<request.bytes.count) : [1, 8191, 8192, 8193, 16_384]
    for split in splits where split < request.bytes.count {
      var conversation = Conversation()
      conversation.receive(Array(request.bytes[..<split]))
      conversation.receive(Array(request.bytes[split...]))
      #expect(conversation.events == whole.events, "split at \(split)")
    }
    guard request.bytes.count < 2000 else { return }
    var conversation = Conversation()
    for byte in request.bytes { conversation.receive([byte]) }
    #expect(conversation.events == whole.events, "byte by byte")
  }
}
