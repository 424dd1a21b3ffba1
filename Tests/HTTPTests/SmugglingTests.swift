import HTTPTypes
import Testing

@testable import HTTP

@Suite struct SmugglingTests {
  @Test(arguments: RefusedRequest.all)
  func `it is refused once, and the following bytes are not decoded`(request: RefusedRequest) {
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
  func `it is refused alike behind a good request`(request: RefusedRequest) {
    var conversation = Conversation()
    conversation.receive(Array("GET /first HTTP/1.1\r\nHost: a\r\n\r\n".utf8) + request.bytes)
    // An empty line more before a request is a matter of where the request begins.
    #expect(conversation.answers.map(\.closes) == [false, true])
    #expect(conversation.events.first == .request("GET", "/first", []))
  }

  @Test(arguments: RefusedRequest.all)
  func `it comes to the same in pieces of any size`(request: RefusedRequest) {
    var whole = Conversation()
    whole.receive(request.bytes)
    // The long ones are long in the middle, where one split is like another.
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
