import Logging
import Platform
import Sockets
import Testing

@testable import HTTP
@testable import receiptd

/// The level of a response in the log.
@Suite struct RequestLogTests {
  private static func summary(
    _ status: Int, isProblem: Bool = true, route: Int? = nil, reachedHandler: Bool = false
  ) -> RequestSummary {
    RequestSummary(
      method: "GET", route: route == nil ? "unmatched" : "/readyz", routeIndex: route,
      reachedHandler: reachedHandler, status: status,
      problem: isProblem ? .overloaded("The response was not ready in time.") : nil, nanoseconds: 1_000,
      bytesSent: 100, trace: .new(), id: .generated(1, 2),
      remoteAddress: SocketAddress(host: "127.0.0.1", port: 1), clientAddress: IPAddress(bits: 1))
  }

  @Test(arguments: [400, 408, 413, 414, 417, 429, 431, 501, 505])
  func `a request that cannot be read is a client's fault and is logged at debug`(status: Int) {
    #expect(RequestLog.level(Self.summary(status)) == .debug)
    #expect(RequestLog.level(Self.summary(status, route: 0)) == .debug)
  }

  @Test func `a refusal of a handler is logged at info, except for one of a rate limit`() {
    #expect(RequestLog.level(Self.summary(401, route: 0, reachedHandler: true)) == .info)
    #expect(RequestLog.level(Self.summary(429, route: 0, reachedHandler: true)) == .debug)
  }

  @Test(arguments: [500, 503])
  func `a failure of the server is logged at error`(status: Int) {
    #expect(RequestLog.level(Self.summary(status)) == .error)
    #expect(RequestLog.level(Self.summary(status, route: 0, reachedHandler: true)) == .error)
  }

  @Test func `the state that readyz reports is logged at info`() {
    #expect(RequestLog.level(Self.summary(503, isProblem: false, route: 0, reachedHandler: true)) == .info)
  }
}
