import HTTPTypes
import Sockets
import TestSocket
import Testing

@testable import HTTP

/// Bodies whose end is still to come take memory before anybody had to say who he is.
@Suite(.timeLimit(.minutes(1))) struct UnfinishedBodyTests {
  private static func head(_ length: Int) -> String {
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\n\r\n"
  }
  private static func bytes(_ count: Int) -> [UInt8] { [UInt8](repeating: UInt8(ascii: "x"), count: count) }

  @Test func `the longest of them makes room for the others`() throws {
    let fixture = try ServerFixture {
      $0.eventLoops = 1
      $0.limits.unfinishedBodies = 100_000
    }
    let sockets = try (0..<3).map { _ in try fixture.connect() }
    for (socket, count) in zip(sockets, [60_000, 20_000, 30_000]) {
      try socket.send(Self.head(count + 1))
      try socket.send(Self.bytes(count))
    }
    let refused = try #require(try WireResponse.all(in: try sockets[0].receiveAll()).first)
    #expect(refused.status == 503)
    #expect(refused["Retry-After"] == "1")
    #expect(refused["Connection"] == "close")
    #expect(refused.text.contains("overloaded"))
    for (socket, count) in zip(sockets[1...], [20_001, 30_001]) {
      try socket.send(Self.bytes(1))
      socket.finishSending()
      let served = try #require(try WireResponse.all(in: try socket.receiveAll()).first)
      #expect(served.status == 200)
      #expect(served.body.count == count)
    }
  }

  @Test func `what was finished, refused or left counts no more`() throws {
    let fixture = try ServerFixture {
      $0.eventLoops = 1
      $0.limits.unfinishedBodies = 100_000
    }
    for round in 0..<9 {
      let socket = try fixture.connect()
      try socket.send(Self.head(60_000))
      switch round % 3 {
      case 0:
        try socket.send(Self.bytes(60_000))
        socket.finishSending()
        let answers = try WireResponse.all(in: try socket.receiveAll())
        #expect(answers.map(\.status) == [200], "round \(round)")
      case 1:
        try socket.send(Self.bytes(50_000))
        socket.finishSending()
        let answers = try WireResponse.all(in: try socket.receiveAll())
        #expect(answers.map(\.status) == [400], "round \(round)")
      default:
        try socket.send(Self.bytes(50_000))
        socket.reset()
      }
    }
  }

  @Test func `a body that is given up leaves nothing behind`() {
    var conversation = Conversation()
    conversation.receive(Self.head(1_000))
    conversation.receive(Self.bytes(900))
    #expect(conversation.state.unfinishedBytes == 900)
    guard case .refuse(let problem) = conversation.state.shed() else {
      Issue.record("it was not refused")
      return
    }
    #expect(problem.code == .overloaded)
    #expect(conversation.state.unfinishedBytes == 0)
    guard case .wait = conversation.state.shed() else {
      Issue.record("it was refused twice")
      return
    }
  }

  @Test(arguments: [1, 2, 16, 64])
  func `each loop has its part of the room, and a sixteenth at least`(loops: Int) {
    var limits = HTTPLimits()
    limits.unfinishedBodies = 1_600
    #expect(limits.unfinishedBodies(ofLoops: loops) == 1_600 / min(loops, 16))
  }
}
