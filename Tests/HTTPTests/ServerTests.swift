import HTTP
import HTTPTypes
import TestSocket
import Testing

/// The server over real TCP.
@Suite(.timeLimit(.minutes(10))) struct ServerTests {
  private static func get(_ path: String, _ lines: String = "Host: a\r\n") -> String {
    "GET \(path) HTTP/1.1\r\n\(lines)\r\n"
  }
  private static func last(_ path: String) -> String { get(path, "Host: a\r\nConnection: close\r\n") }

  @Test(arguments: RefusedRequest.all)
  func `a smuggled request gets one problem response, and the connection is closed`(request: RefusedRequest)
    throws
  {
    let responses = try ServerFixture.shared.exchange(request.bytes)
    #expect(responses.map(\.status) == [request.status])
    let response = try #require(responses.first)
    #expect(response["Connection"] == "close")
    #expect(response["Content-Type"] == "application/problem+json")
    let problem = try JSONCoding.decode(ProblemBody.self, from: response.body)
    #expect(problem.status == request.status)
    #expect(!problem.success)
    #expect(problem.requestID == response["X-Request-ID"])
  }

  private struct ProblemBody: Decodable {
    var status: Int, code: String, success: Bool, error: String, requestID: String
  }

  @Test func `the responses to pipelined requests keep their order`() async throws {
    let fixture = try ServerFixture()
    let socket = try fixture.connect()
    try socket.send(Self.get("/gate") + Self.get("/now") + Self.get("/later") + Self.last("/now"))
    await fixture.gate.arrivals(1)
    #expect(fixture.summaries.all.isEmpty)
    fixture.gate.open()
    let responses = try WireResponse.all(in: try socket.receiveAll())
    #expect(responses.map(\.text) == ["gate", "now", "later", "now"])
    #expect(responses.map { $0["Connection"] } == [nil, nil, nil, "close"])
  }

  @Test func `a thousand pipelined requests all get responses`() throws {
    let text = String(repeating: Self.get("/now"), count: 999) + Self.last("/later")
    let responses = try ServerFixture.shared.exchange(text)
    #expect(responses.count == 1000)
    #expect(responses.allSatisfy { $0.status == 200 })
    #expect(Set(responses.map { $0["X-Request-ID"] }).count == 1000)
  }

  @Test func `a handler can close the connection before or within a response`() throws {
    for (path, rest) in [("/hang-up", ""), ("/hang-up/later", "HTTP/1.1 200 OK\r\n")] {
      let socket = try ServerFixture.shared.connect()
      // Earlier requests get responses, and later ones do not.
      try socket.send(Self.get("/now") + Self.get(path) + Self.get("/now"))
      let text = String(decoding: try socket.receiveAll(), as: UTF8.self)
      let parts = text.split(separator: "\r\n\r\nnow", omittingEmptySubsequences: false)
      #expect(parts.count == 2)
      #expect(parts.last.map(String.init) == rest)
    }
  }

  @Test func `a client that expects 100 Continue gets it before the body`() throws {
    let socket = try ServerFixture.shared.connect()
    try socket.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    )
    let go = "HTTP/1.1 100 Continue\r\n\r\n"
    #expect(try socket.receive(exactly: go.utf8.count) == Array(go.utf8))
    try socket.send("hello")
    #expect(try WireResponse.all(in: try socket.receiveAll()).map(\.text) == ["hello"])
  }

  @Test(arguments: [("/small", 413), ("/nothing", 404), ("/now", 405)])
  func `a client that expects 100 Continue gets the refusal before it sends the body`(
    path: String, status: Int
  ) throws {
    let responses = try ServerFixture.shared.exchange(
      "POST \(path) HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    #expect(responses.map(\.status) == [status])
    #expect(responses.first?["Connection"] == "close")
  }

  @Test func `a body beyond the route's limit is refused, in one piece or in chunks`() throws {
    for request in [
      "POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
      "POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
    ] {
      let responses = try ServerFixture.shared.exchange(request + Self.get("/now"))
      #expect(responses.map(\.status) == [413])
    }
  }

  @Test func `a client that sends a large refused body still gets its response`() throws {
    // Closing with unread bytes would reset the connection, and the client could lose the response.
    let socket = try ServerFixture.shared.connect()
    try socket.send("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n")
    try socket.send([UInt8](repeating: 0, count: 400_000))
    #expect(try WireResponse.all(in: try socket.receiveAll()).map(\.status) == [413])
  }

  @Test func `HEAD gets the response of GET without the body`() throws {
    let responses = try ServerFixture.shared.exchange(
      "HEAD /now HTTP/1.1\r\nHost: a\r\n\r\n" + Self.last("/now"), bodiless: [true])
    #expect(responses.map { $0["Content-Length"] } == ["3", "3"])
    #expect(responses.map(\.text) == ["", "now"])
  }

  @Test func `an HTTP 1 point 0 connection is closed, or kept alive on request`() throws {
    let once = try ServerFixture.shared.exchange("GET /now HTTP/1.0\r\n\r\n")
    #expect(once.map { $0["Connection"] } == ["close"])
    let twice = try ServerFixture.shared.exchange(
      "GET /now HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /now HTTP/1.0\r\n\r\n")
    #expect(twice.map { $0["Connection"] } == ["keep-alive", "close"])
  }

  @Test func `a request without a route gets a problem, and the connection stays open`() throws {
    let responses = try ServerFixture.shared.exchange(
      Self.get("/nothing") + "DELETE /now HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
        + "OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n" + Self.get("/a%zz") + Self.get("/query?name=%zz")
        + Self.last("/query?name=J%C3%BCrgen+K"))
    #expect(responses.map(\.status) == [404, 405, 204, 400, 400, 200])
    #expect(responses[1]["Allow"] == "GET, HEAD, OPTIONS")
    #expect(responses[2]["Allow"] == "POST, OPTIONS")
    #expect(responses[5].text == "J\u{FC}rgen K")
  }

  @Test func `a handler's error is hidden from the client, and a problem is sent`() throws {
    let responses = try ServerFixture.shared.exchange(
      Self.get("/secret") + Self.get("/secret/later") + Self.last("/problem"))
    #expect(responses.map(\.status) == [500, 500, 409])
    #expect(!responses.contains { $0.text.contains("password") })
    #expect(responses[2]["Retry-After"] == "7")
    #expect(responses[2].text.contains("\"code\":\"taken\""))
  }

  @Test func `a handler sees the client's address, the target and the request id`() throws {
    let responses = try ServerFixture.shared.exchange(
      Self.get("http://b:1/who?x=1", "Host: a\r\nX-Request-ID: my-id.1\r\n")
        + Self.get("/who", "Host: a\r\nX-Request-ID: no good\r\nConnection: close\r\n"))
    #expect(responses[0].text == "127.0.0.1 my-id.1 b:1 /who?x=1")
    #expect(responses[0]["X-Request-ID"] == "my-id.1")
    let own = try #require(responses[1]["X-Request-ID"])
    #expect(own.count == 32)
    #expect(responses[1].text == "127.0.0.1 \(own) a /who")
  }

  @Test func `each response has a summary with labels that a client cannot choose`() throws {
    let fixture = try ServerFixture()
    let responses = try fixture.exchange(
      Self.get("/large/10", "Host: a\r\nX-Request-ID: one\r\n") + "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n"
        + "GET\r\n\r\n")
    #expect(responses.map(\.status) == [200, 404, 400])
    let summaries = fixture.summaries.all
    #expect(summaries.map(\.method) == ["GET", "OTHER", "OTHER"])
    #expect(summaries.map(\.route) == ["/large/{count}", "unmatched", "unmatched"])
    #expect(summaries.map(\.status) == [200, 404, 400])
    #expect(summaries[0].requestID == "one")
    #expect(summaries[0].remoteAddress.host == "127.0.0.1")
    #expect(summaries[0].bytesSent > 10)
    #expect(summaries.allSatisfy { $0.duration >= .zero })
  }

  @Test func `a thousand connections in turn are served and released`() throws {
    let fixture = try ServerFixture()
    for _ in 0..<1000 {
      #expect(try fixture.exchange(Self.last("/now")).map(\.text) == ["now"])
    }
    #expect(fixture.summaries.all.count == 1000)
  }

  @Test func `64 concurrent connections are served`() async throws {
    let fixture = try ServerFixture()
    try await withThrowingTaskGroup(of: Int.self) { group in
      for number in 0..<64 {
        group.addTask {
          let body = "body of \(number)"
          let request =
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
          let socket = try fixture.connect()
          for _ in 0..<20 { try socket.send(request) }
          try socket.send(Self.last("/now"))
          let responses = try WireResponse.all(in: try socket.receiveAll())
          #expect(responses.dropLast().allSatisfy { $0.text == body })
          return responses.count
        }
      }
      for try await count in group { #expect(count == 21) }
    }
  }
}

extension ServerFixture {
  /// A fixture that several tests share, for tests that leave no state.
  static var shared: ServerFixture {
    get throws { try sharedResult.get() }
  }
  private static let sharedResult = Result { try ServerFixture() }
}
