import Foundation
import HTTP
import HTTPTypes

/// The body of `POST /control/clock`. Its members are applied in this order.
public struct ClockParameters: Codable, Sendable {
  /// The later time to set.
  public var now: Date?
  /// The period of the store's time to advance, in ISO 8601, such as `P1D` or `PT12H`.
  public var advance: String?
  /// The seconds to advance.
  public var advanceSeconds: Double?
  /// Seconds of the store's time per real second: 1 is real time, 0 stops the clock.
  public var rate: Double?

  /// Makes an empty body.
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
      // Deliver first, so that a script finds all due notifications sent.
      await store.deliverDue()
      return try .json(.ok, ClockAnswer(now: clock.now, rate: clock.rate), times: .milliseconds)
    }
  }

  var virtualClock: VirtualClock {
    get throws(Problem) {
      guard let clock = store.virtualClock else {
        throw .refused("the store has a clock that the control API cannot set")
      }
      return clock
    }
  }
}
