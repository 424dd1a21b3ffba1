import HTTPTypes
import Sockets
import TestDatabase
import Testing

@testable import Curl

@Suite(.timeLimit(.minutes(1))) struct CurlClientTests {
  @Test func `the server gets the method, the fields and the body, and the client gets the response`()
    async throws
  {
    try await withEcho { server, client in
      for method in [HTTPRequest.Method.post, .put, .delete] {
        let answer = try await client.send(
          CurlRequest(
            method: method, url: server.url("/echo"),
            headers: [field("X-Given"): "a value", .contentType: "application/json"],
            body: Array(#"{"a": "ü"}"#.utf8)))
        #expect(answer.status == 200)
        #expect(answer.headers[field("X-Method")] == method.rawValue)
        #expect(answer.headers[field("X-Given")] == "a value")
        #expect(answer.headers[field("X-Content-Type")] == "application/json")
        #expect(answer.headers[field("X-Expect")] == "none")
        #expect(answer.body == Array(#"{"a": "ü"}"#.utf8))
        #expect(answer.httpVersion == .http11)
      }
    }
  }

  @Test(arguments: [0, 1, 100_000]) func `a request body of any length arrives unchanged`(length: Int)
    async throws
  {
    try await withEcho { server, client in
      let body = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
      let answer = try await client.send(
        CurlRequest(method: .post, url: server.url("/echo"), body: body))
      #expect(answer.body == body)
      #expect(answer.headers[field("X-Content-Type")] == "none")
    }
  }

  @Test func `no response status is an error, and a redirect is not followed`() async throws {
    try await withEcho { server, client in
      for code in [401, 404, 429, 500, 503] {
        let answer = try await client.send(CurlRequest(url: server.url("/status/\(code)")))
        #expect(answer.status == code)
        #expect(answer.body == Array("not JSON".utf8))
      }
      let redirect = try await client.send(CurlRequest(url: server.url("/elsewhere")))
      #expect(redirect.status == 302)
      #expect(redirect.headers[.location] == "http://127.0.0.1:1/")
    }
  }

  /// libcurl accepts any number as a status after `HTTP/2`.
  @Test(arguments: ["99999", "1000", "7", "-5"]) func `a response with an invalid status is an error`(
    status: String
  )
    async throws
  {
    try await withEcho { server, client in
      await #expect {
        _ = try await client.send(CurlRequest(url: server.url("/line/\(status)")))
      } throws: { error in
        if case CurlError.other(code: 8, _) = error { true } else { false }
      }
      let answer = try await client.send(CurlRequest(url: server.url("/line/599")))
      #expect(answer.status == 599)
    }
  }

  @Test func `the client aborts a response beyond its length limit`() async throws {
    try await withEcho { server, client in
      let exact = try await client.send(
        CurlRequest(url: server.url("/large/1000"), maximumResponseLength: 1000))
      #expect(exact.body.count == 1000)
      await #expect(throws: CurlError.tooLarge) {
        _ = try await client.send(CurlRequest(url: server.url("/large/1001"), maximumResponseLength: 1000))
      }
    }
  }

  @Test func `a request to a server that does not respond fails at its deadline`() async throws {
    try await withEcho { server, client in
      await #expect(throws: CurlError.timedOut) {
        try await client.send(CurlRequest(url: server.url("/never"), timeout: .milliseconds(200)))
      }
    }
  }

  // In the queue of libcurl 7.88 the later request would wait for the end of the earlier one (curl issue 13227).
  @Test func `a request fails at its own deadline while an earlier one to its host has no answer`()
    async throws
  {
    try await withSilentHost { proxy, url, client in
      let earlier = Task { try await client.send(CurlRequest(url: url, timeout: .seconds(50))) }
      try await proxy.awaitHeldRequest()
      await #expect(throws: CurlError.timedOut) {
        try await client.send(CurlRequest(url: url, timeout: .milliseconds(200)))
      }
      earlier.cancel()
      await #expect(throws: CurlError.cancelled) { try await earlier.value }
    }
  }

  @Test func `a host without answers does not hold up the requests to another one`() async throws {
    var configuration = CurlConfiguration()
    configuration.maximumInFlight = 16
    configuration.maximumConnectionsPerHost = 2
    try await withSilentHost(configuration) { proxy, url, client in
      let stuck = (0..<20).map { _ in
        Task { try await client.send(CurlRequest(url: url, timeout: .seconds(50))) }
      }
      try await proxy.awaitHeldRequest()
      let other = try EchoServer()
      #expect(try await client.send(CurlRequest(url: other.url("/status/200"))).status == 200)
      await other.stop()
      for task in stuck { task.cancel() }
      for task in stuck { await #expect(throws: CurlError.cancelled) { try await task.value } }
    }
  }

  private func withSilentHost(
    _ configuration: CurlConfiguration = CurlConfiguration(),
    _ body: (_ proxy: Proxy, _ url: String, CurlClient) async throws -> Void
  ) async throws {
    try await withEcho(configuration) { server, client in
      let proxy = try Proxy(to: UInt16(server.address.port))
      defer { proxy.stop() }
      proxy.set(.silent)
      try await body(proxy, "http://127.0.0.1:\(proxy.port)/status/200", client)
    }
  }

  @Test func `a request to a closed port fails with couldNotConnect`() async throws {
    let client = CurlClient()
    await #expect {
      _ = try await client.send(CurlRequest(url: "http://127.0.0.1:1/"))
    } throws: { error in
      if case CurlError.couldNotConnect = error { true } else { false }
    }
    await client.shutDown()
  }

  @Test(arguments: ["ftp://127.0.0.1/", "file:///etc/passwd", "nonsense://x", "http://", ""])
  func `a URL of another scheme than http and https is refused`(url: String) async throws {
    let client = CurlClient()
    await #expect {
      _ = try await client.send(CurlRequest(url: url))
    } throws: { error in
      if case CurlError.refused = error { true } else { false }
    }
    await client.shutDown()
  }

  @Test func `a broken connection is an error, and the next request opens another one`() async throws {
    try await withEcho { server, client in
      let proxy = try Proxy(to: UInt16(server.address.port))
      defer { proxy.stop() }
      let url = "http://127.0.0.1:\(proxy.port)"
      #expect(try await client.send(CurlRequest(url: url + "/status/200")).status == 200)
      proxy.set(.cutAtAnswer)
      await #expect(throws: CurlError.self) {
        _ = try await client.send(CurlRequest(url: url + "/status/200", timeout: .seconds(60)))
      }
      proxy.set(.pass)
      #expect(try await client.send(CurlRequest(url: url + "/status/200")).status == 200)
    }
  }

  @Test func `each of many concurrent client requests gets its own response`() async throws {
    var configuration = CurlConfiguration()
    configuration.maximumInFlight = 16
    try await withEcho(configuration) { server, client in
      try await withThrowingTaskGroup(of: Bool.self) { group in
        for number in 0..<300 {
          group.addTask {
            let body = Array("request \(number)".utf8)
            return try await client.send(
              CurlRequest(method: .post, url: server.url("/echo"), body: body)
            ).body == body
          }
        }
        for try await isOwn in group { #expect(isOwn) }
      }
    }
  }

  @Test func `a request to a full queue is refused, and a queued request fails at its deadline`()
    async throws
  {
    var configuration = CurlConfiguration()
    configuration.maximumInFlight = 1
    configuration.maximumQueued = 1
    try await withEcho(configuration) { server, client in
      let results = await withTaskGroup(of: CurlError?.self) { group in
        for _ in 0..<5 {
          group.addTask {
            do throws(CurlError) {
              _ = try await client.send(
                CurlRequest(url: server.url("/never"), timeout: .seconds(2)))
              return nil
            } catch {
              return error
            }
          }
        }
        return await group.reduce(into: []) { $0.append($1) }
      }
      #expect(results.filter { $0 == .timedOut }.count == 2)
      #expect(results.filter { $0 == .busy }.count == 3)
    }
  }

  @Test func `a cancelled task fails at once, and the client stays usable`() async throws {
    try await withEcho { server, client in
      let tasks = (0..<20).map { _ in
        Task {
          try await client.send(CurlRequest(url: server.url("/never"), timeout: .seconds(60)))
        }
      }
      for task in tasks { task.cancel() }
      for task in tasks {
        await #expect(throws: CurlError.cancelled) { try await task.value }
      }
      let after = try await client.send(CurlRequest(url: server.url("/status/200")))
      #expect(after.status == 200)
    }
  }

  @Test func `a request after the client's shutdown fails at once`() async throws {
    try await withEcho { server, client in
      let running = Task {
        try await client.send(CurlRequest(url: server.url("/never"), timeout: .seconds(60)))
      }
      try await Task.sleep(for: .milliseconds(50))
      await client.shutDown()
      await #expect(throws: CurlError.shutDown) { try await running.value }
      await #expect(throws: CurlError.shutDown) {
        try await client.send(CurlRequest(url: server.url("/status/200")))
      }
      await client.shutDown()
    }
  }
}
