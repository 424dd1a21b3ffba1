import Foundation
import Synchronization

/// Sends one app's calls to the server of one environment: at each endpoint's rate, with the retries that Apple allows,
/// and behind a circuit breaker.
///
/// A call about an id that may be invented takes two permits of an endpoint: one of a smaller ``RateLimit``, then one
/// of the endpoint's own. It keeps both until a window after the response. So such calls never hold more permits or
/// queue places than the smaller limit allows, and the rest is left to other calls.
final class StoreHost: Sendable {
  typealias Instant = ContinuousClock.Instant

  /// The throttles of one endpoint.
  private struct Throttles {
    let all: RequestThrottle
    /// For calls about ids that may be invented, before `all`.
    let unknownIDs: RequestThrottle
  }

  /// The share of an endpoint's rate and queue for calls about ids that may be invented; at least one permit.
  static let shareOfUnknownIDs = (numerator: 3, denominator: 5)

  /// The bound of an endpoint's queue. At the highest rate no timeout is long enough to reach it.
  static let maximumWaiting = 1_000
  /// The time that a request has at least after it was admitted. A timeout below five times as long gives it a fifth.
  static let shortestRequestTimeout = Duration.seconds(1)

  let address: AppStoreAddress
  private let throttles: [Endpoint: Throttles]
  private let circuit = Mutex(CircuitBreaker())
  private let clock: StoreClock

  init(_ environment: Environment, at address: AppStoreAddress, clock: StoreClock) {
    self.address = address
    self.clock = clock
    throttles = Dictionary(
      uniqueKeysWithValues: Endpoint.allCases.map { endpoint in
        let (count, window) = endpoint.allowance(in: environment)
        func throttle(_ count: Int, _ maximumWaiting: Int) -> RequestThrottle {
          RequestThrottle(
            RateLimit(count: count, window: window, maximumWaiting: maximumWaiting), clock: clock)
        }
        return (
          endpoint,
          Throttles(
            all: throttle(count, Self.maximumWaiting),
            unknownIDs: throttle(Self.share(of: count), Self.share(of: Self.maximumWaiting)))
        )
      })
  }

  private static func share(of count: Int) -> Int {
    max(1, count * shareOfUnknownIDs.numerator / shareOfUnknownIDs.denominator)
  }

  /// Whether the circuit is open or a probe is on its way.
  var isCircuitOpen: Bool { circuit.withLock { $0.isOpen } }

  /// Carries out a call with its waits and retries.
  ///
  /// - Parameters:
  ///   - isOfUnknownID: whether the call is about an id that may be invented.
  ///   - deadline: when the caller's timeout ends.
  ///   - send: sends one request within a time.
  func carryOut(
    _ endpoint: Endpoint, isOfUnknownID: Bool, by deadline: Instant, _ send: (Duration) async -> ServerResult
  ) async -> ServerResult {
    if let wait = circuit.withLock({ $0.wait(at: clock.instant()) }) {
      return .failure(.circuitOpen(retryAfter: wait))
    }
    // The dictionary has every endpoint.
    guard let both = throttles[endpoint] else { return .failure(.invalidArgument("endpoint")) }
    let throttles = isOfUnknownID ? [both.unknownIDs, both.all] : [both.all]
    let latest = deadline - min(Self.shortestRequestTimeout, (deadline - clock.instant()) / 5)
    var schedule = RetrySchedule()
    while true {
      if let refusal = await enter(throttles, by: latest) { return .failure(refusal) }
      guard let pass = circuit.withLock({ $0.ask(at: clock.instant()) }) else {
        for throttle in throttles { throttle.returned() }
        return .failure(.circuitOpen(retryAfter: circuit.withLock { $0.wait(at: clock.instant()) } ?? .zero))
      }
      let result = await send(max(deadline - clock.instant(), .milliseconds(1)))
      // Pause before the permit is given back, which admits the next request.
      if case .failure(.rejected(let rejection)) = result, rejection.isRateLimit {
        let length = RateLimitPause(rejection, at: clock.date()).length
        both.all.pause(for: length)
        both.unknownIDs.pause(for: length)
      }
      for throttle in throttles { throttle.answered() }
      guard case .failure(let error) = result else {
        circuit.withLock { $0.answered() }
        return result
      }
      var pause = schedule.pause(after: error, at: clock.date(), jitter: clock.jitter())
      if case .rejected(let rejection) = error, rejection.status >= 500, !endpoint.isRepeatable {
        pause = nil
      }
      let isRepeated = pause.map { clock.instant() + $0 < latest } ?? false
      // A call that is repeated may still succeed, so its failures do not count, except for a failed probe.
      if report(error, under: pass, isLast: !isRepeated) || !isRepeated { return result }
      do {
        if let pause, pause > .zero { try await clock.sleep(clock.instant() + pause) }
      } catch {
        return .failure(.transport(error))
      }
    }
  }

  /// Takes a permit of each throttle in turn, or none.
  ///
  /// - Returns: the reason why the request may not be sent; nil if it may.
  private func enter(_ throttles: [RequestThrottle], by latest: Instant) async -> AppStoreServerError? {
    for (index, throttle) in throttles.enumerated() {
      guard let refusal = await throttle.enter(by: latest) else { continue }
      for entered in throttles[..<index] { entered.returned() }
      return refusal
    }
    return nil
  }

  /// Reports the failure of a request to the circuit breaker.
  ///
  /// - Returns: whether the request was a probe and the server is still out.
  private func report(
    _ error: AppStoreServerError, under pass: CircuitBreaker.Pass, isLast: Bool
  ) -> Bool {
    circuit.withLock { circuit in
      switch error.meaning {
      case .response: circuit.answered()
      case .outage where isLast || pass.isProbe:
        circuit.failed(pass, at: clock.instant(), jitter: clock.jitter())
        return pass.isProbe
      case .outage: break
      case .unknown: circuit.abandoned(pass, at: clock.instant())
      }
      return false
    }
  }
}

extension AppStoreServerError {
  /// The state of the server as an error shows it.
  fileprivate enum Meaning {
    /// The server works and refuses the request.
    case response
    /// The server is unreachable or broken.
    case outage
    /// No request was sent, or the caller was cancelled.
    case unknown
  }

  fileprivate var meaning: Meaning {
    switch self {
    case .rejected(let rejection): (400..<500).contains(rejection.status) ? .response : .outage
    case .unauthorizedWithoutJSON, .transactionNotFound, .answeredBySandboxAlone: .response
    case .transport(let error): error is CancellationError ? .unknown : .outage
    case .undecodableAnswer: .outage
    case .invalidArgument, .tokenNotSigned, .overloaded, .circuitOpen: .unknown
    }
  }
}

/// The time and randomness of the client as parameters, so that a test can set both by hand.
public struct StoreClock: Sendable {
  /// The calendar time, for the issue time of tokens and for `Retry-After`.
  public var date: @Sendable () -> Date
  /// The calendar time for the age of cached responses. It differs from ``date`` only where the service's clock is
  /// set forward while the store's tokens use real time.
  public var cacheDate: @Sendable () -> Date
  /// The monotonic time, for every wait.
  public var instant: @Sendable () -> ContinuousClock.Instant
  /// Waits until an instant without holding a thread; throws if the task is cancelled.
  public var sleep: @Sendable (ContinuousClock.Instant) async throws -> Void
  /// A random number, evenly distributed from 0 to 1.
  public var jitter: @Sendable () -> Double

  /// The system's clocks and random numbers.
  public static let system = Self(
    date: { Date() }, cacheDate: { Date() }, instant: { .now },
    sleep: { try await Task.sleep(until: $0, clock: .continuous) }, jitter: { .random(in: 0...1) })
}
