import Foundation
import HTTPTypes
import Sockets
import TestSocket
import Testing

@testable import HTTP

/// The memory limit of incomplete requests, pipelined requests and unread responses, which apply before authentication.
@Suite(.timeLimit(.minutes(10))) struct HeldBytesTests {
  private static func head(_ length: Int) -> String {
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\n\r\n"
  }
  private static func bytes(_ count: Int) -> [UInt8] { [UInt8](repeating: UInt8(ascii: "x"), count: count) }

  @Test func `at the memory limit the server refuses the request with the most buffered bytes`() throws {
    let fixture = try ServerFixture {
      $0.eventLoops = 1
      $0.limits.bufferedBytes = 100_000
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

  @Test func `finished, refused and abandoned requests no longer count as buffered`() throws {
    let fixture = try ServerFixture {
      $0.eventLoops = 1
      $0.limits.bufferedBytes = 100_000
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

  @Test func `load shedding refuses an incomplete body once and frees its bytes`() {
    var conversation = Conversation()
    conversation.receive(Self.head(1_000))
    conversation.receive(Self.bytes(900))
    #expect(conversation.state.bufferedBytes >= 900)
    guard case .refuse(let problem) = conversation.state.shedLoad() else {
      Issue.record("it was not refused")
      return
    }
    #expect(problem.code == .overloaded)
    #expect(conversation.state.bufferedBytes == 0)
    guard case .wait = conversation.state.shedLoad() else {
      Issue.record("it was refused twice")
      return
    }
  }

  @Test func `load shedding refuses an incomplete head`() {
    var conversation = Conversation()
    conversation.receive("GET /now HTTP/1.1\r\nX: " + String(repeating: "x", count: 1_000))
    #expect(conversation.state.bufferedBytes == 1_022)
    guard case .refuse(let problem) = conversation.state.shedLoad() else {
      Issue.record("it was not refused")
      return
    }
    #expect(problem.code == .overloaded)
  }

  @Test func `load shedding drops pipelined requests and closes after the current response`() {
    var conversation = Conversation()
    conversation.answersAtOnce = false
    conversation.receive("GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(conversation.state.bufferedBytes == 30)
    guard case .wait = conversation.state.shedLoad() else {
      Issue.record("the request under way was refused")
      return
    }
    conversation.receive("GET /three HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(conversation.state.bufferedBytes == 0)
    conversation.answer()
    #expect(conversation.answers.map(\.closes) == [true])
    #expect(conversation.events == [.request("GET", "/one", []), .finished])
  }

  @Test func `at the memory limit the server drops pipelined requests and refuses no other request`()
    async throws
  {
    let fixture = try ServerFixture {
      $0.eventLoops = 1
      $0.limits.bufferedBytes = 60_000
    }
    let waiting = try fixture.connect()
    try waiting.send("GET /gate HTTP/1.1\r\nHost: a\r\n\r\n")
    try waiting.send(Self.bytes(50_000))
    await fixture.gate.arrivals(1)
    let other = try fixture.connect()
    try other.send(Self.head(20_001))
    try other.send(Self.bytes(20_000))
    // The response shows that the server has processed the earlier bytes.
    let last = try fixture.connect()
    try last.send(Self.head(2))
    try last.send(Self.bytes(2))
    last.finishSending()
    #expect(try WireResponse.all(in: try last.receiveAll()).map(\.status) == [200])
    try other.send(Self.bytes(1))
    other.finishSending()
    #expect(try WireResponse.all(in: try other.receiveAll()).map(\.status) == [200])
    fixture.gate.open()
    let answers = try WireResponse.all(in: try waiting.receiveAll())
    #expect(answers.map(\.status) == [200])
    #expect(answers.first?["Connection"] == "close")
  }

  @Test
  func `at the memory limit a client that does not read is disconnected, and no other request is refused`()
    throws
  {
    let fixture = try ServerFixture {
      $0.eventLoops = 1
      $0.limits.bufferedBytes = 1_000_000
    }
    let unread = try TestSocket(connectingTo: fixture.address, receiveBuffer: 4_096)
    let patient = try fixture.connect()
    try patient.send(Self.head(10_001))
    try patient.send(Self.bytes(10_000))
    // More than the kernel buffers for the receiver.
    try unread.send("GET /large/30000000 HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(throws: TestSocket.Failure.system("recv", ECONNRESET)) { try unread.receiveAll() }
    try patient.send(Self.bytes(1))
    patient.finishSending()
    #expect(try WireResponse.all(in: try patient.receiveAll()).map(\.status) == [200])
  }

  @Test(arguments: [1, 2, 12, 64])
  func `each event loop has an equal part of the memory limit, at least a twelfth`(loops: Int) {
    var limits = HTTPLimits()
    limits.bufferedBytes = 1_200
    #expect(limits.bufferedBytes(ofLoops: loops) == 1_200 / min(loops, 12))
  }
}
