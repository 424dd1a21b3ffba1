import AppStore
import Foundation
import HTTP
import HTTPTypes

/// The control API, which changes the store. It has no authorization and therefore answers only to this machine.
///
/// Every answer is a 200 with JSON. The query `environment` names the environment, and `deliver=false` holds the
/// notifications that a request causes.
struct ControlRoutes: Sendable {
  let store: SimulatedAppStore
  /// The environment of requests that name none.
  let environment: Environment

  /// The answer of a route that has nothing to tell.
  struct Done: Encodable {}

  func add(to router: inout Router) {
    addStore(to: &router)
    addCustomers(to: &router)
    addNotifications(to: &router)
    addFaults(to: &router)
    addLives(to: &router)
  }

  func on(
    _ method: HTTPRequest.Method, _ pattern: String, _ router: inout Router,
    _ handler: @escaping @Sendable (Request) async throws -> any Encodable
  ) {
    router.on(method, "/control/" + pattern) { request in
      try Self.checkCaller(request.remoteAddress)
      do {
        // Milliseconds, the precision of signed dates, so that a test can compare rows with the truth.
        return try .json(.ok, await handler(request), times: .milliseconds)
      } catch let refusal as StoreRefusal {
        throw refusal.isUnknownName ? Problem.notFound(refusal.message) : Problem.refused(refusal.message)
      } catch let refusal as VirtualClock.GoesBack {
        throw Problem.refused("time never goes back, and it is \(refusal.now.formatted(.iso8601))")
      }
    }
  }

  func environment(of request: Request) -> Environment {
    request.query["environment"].map(Environment.init(rawValue:)) ?? environment
  }

  /// Refuses a caller on another machine.
  static func checkCaller(_ address: SocketAddress) throws(Problem) {
    guard ["127.0.0.1", "::1"].contains(address.host) else {
      throw Problem(
        status: .forbidden, code: "forbidden", title: "The control API answers only to its own machine.",
        detail: "The request came from \(address.host).")
    }
  }
}

extension Problem {
  /// 409 for a request that the simulator refuses.
  fileprivate static func refused(_ message: String) -> Problem {
    Problem(
      status: .conflict, code: "refused", title: "The App Store would not do this.", detail: message,
      message: message)
  }
}
