import FlyingFox
import Foundation
import Glibc

/// receiptd's `GET /healthz` on FlyingFox: the defaults of everything, but for two.
///
/// Its logger prints every request. And it writes head and body apart on sockets with Nagle's algorithm, so that each
/// answer waits 40 ms for an acknowledgement: 700 a second at 32 connections, which would say nothing of the server.
@main
enum FlyingFoxPeer {
  static func main() async throws {
    let port = CommandLine.arguments.dropFirst().first.flatMap { UInt16($0) } ?? 0
    let server = try HTTPServer(address: .inet(ip4: "127.0.0.1", port: port), logger: .disabled)
    await server.appendRoute("GET /healthz") { _ in
      HTTPResponse(
        statusCode: .ok, headers: [.contentType: "text/plain; charset=utf-8"], body: Data("ok\n".utf8))
    }
    async let running: Void = server.run()
    try await server.waitUntilListening()
    sendWithoutDelay()
    try await running
  }

  /// On Linux, accepted connections have what was set for the listening socket, which the server keeps to itself.
  private static func sendWithoutDelay() {
    for descriptor in Int32(3)..<64 {
      var isListening: Int32 = 0
      var length = socklen_t(MemoryLayout<Int32>.size)
      getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &isListening, &length)
      var yes: Int32 = 1
      if isListening == 1 { setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, length) }
    }
  }
}
