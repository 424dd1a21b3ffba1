import FoundationEssentials
import HTTP
import HTTPTypes

/// The body of `POST /control/clock`: what it has is done in the order of its members here.
public struct ClockParameters: Codable, Sendable {
  /// Winds to a time ahead.
  public var now: Date?
  /// Winds forward: a period of the store's time in ISO 8601, such as `P1D` or `PT12H`.
  public var advance: String?
  /// Winds forward by so many seconds.
  public var advanceSeconds: Double?
  /// Seconds of the store's time for each real one: 1 is real time, 0 stands still.
  public var rate: Double?

  /// Nothing.
  public init() {}
}

private struct ClockAnswer: Encodable {
  let now: Date
  let rate: Double
}

extension ControlRoutes {
  func addClock(to router: inout Router) {
    on(.get, "/control/clock", &router) { _ in
      let clock = try virtualClock
      return try .json(.ok, ClockAnswer(now: clock.now, rate: clock.rate), times: .milliseconds)
    }
    on(.post, "/control/clock", &router) { request in
      let body = try request.decodeJSON(ClockParameters.self)
      let clock = try virtualClock
      if let now = body.now { try clock.set(to: now) }
      if let text = body.advance {
        guard let duration = StoreDuration(text) else {
          throw Problem.invalidRequest("'advance' must be a period such as P1D or PT12H.")
        }
        try clock.wind { store.timeScale.date($0, adding: duration) }
      }
      if let seconds = body.advanceSeconds { try clock.advance(by: seconds) }
      if let rate = body.rate { try clock.run(at: rate) }
      // So that a script that winds the clock finds done what became due.
      await store.deliverDue()
      return try .json(.ok, ClockAnswer(now: clock.now, rate: clock.rate), times: .milliseconds)
    }
  }

  var virtualClock: VirtualClock {
    get throws(Problem) {
      guard let clock = store.virtualClock else { throw .refused("the store's clock is not in its hands") }
      return clock
    }
  }
}
