import Curl
import HTTP
import HTTPTypes
import Logging
import Synchronization

/// A server on a real socket whose responses contain the request.
final class EchoServer: Sendable {
  let address: SocketAddress
  private let server: HTTPServer

  init() throws {
    var router = Router()
    for method in [HTTPRequest.Method.get, .post, .put, .delete] {
      router.on(method, "/echo", maximumBodyLength: 1 << 20) { request in
        Response(
          status: .ok,
          headers: [
            field("X-Method"): request.method.rawValue,
            field("X-Given"): request.headers[field("X-Given")] ?? "none",
            field("X-Content-Type"): request.headers[.contentType] ?? "none",
            field("X-Expect"): request.headers[field("Expect")] ?? "none",
          ], body: request.body)
      }
    }
    router.on(.get, "/status/{code}") { request in
      .text(.init(code: try request.parameters.require("code")), "not JSON")
    }
    router.on(.get, "/line/{status}") { request in
      let status = try request.parameters.require("status", as: String.self)
      throw ConnectionAbort(sending: Array("HTTP/2 \(status) x\r\nContent-Length: 2\r\n\r\n{}".utf8))
    }
    router.on(.get, "/large/{bytes}") { request in
      Response(body: Array(repeating: 7, count: try request.parameters.require("bytes")))
    }
    router.on(.get, "/elsewhere") { _ in
      Response(status: .found, headers: [.location: "http://127.0.0.1:1/"])
    }
    router.on(.get, "/never") { _ in
      try await Task.sleep(for: .seconds(60))
      return .empty(.noContent)
    }
    server = HTTPServer(
      configuration: HTTPServerConfiguration(), router: router,
      logger: Logger(label: "echo") { _ in SwiftLogNoOpLogHandler() })
    address = try server.start()
  }

  func url(_ path: String) -> String { "http://\(address)\(path)" }

  func stop() async { await server.shutdown(within: .zero) }
}

/// Runs a test with a server and a client.
func withEcho(
  _ configuration: CurlConfiguration = CurlConfiguration(),
  _ body: (EchoServer, CurlClient) async throws -> Void
) async throws {
  let server = try EchoServer()
  let client = CurlClient(configuration: configuration)
  do {
    try await body(server, client)
  } catch {
    await client.shutDown()
    await server.stop()
    throw error
  }
  await client.shutDown()
  await server.stop()
}

/// A field name that is known to be one.
func field(_ name: String) -> HTTPField.Name {
  guard let name = HTTPField.Name(name) else { preconditionFailure("\(name) is no field name") }
  return name
}
