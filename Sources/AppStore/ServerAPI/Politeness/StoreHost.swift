import FoundationEssentials
import Synchronization

/// The server of one environment, and how one app asks it without doing harm: each endpoint at its rate, failures
/// retried where Apple says so, and not at all while the server is down.
///
/// A call about an id that may be invented takes two permits of an endpoint: one of a smaller ``RateLimit``, then one of the
/// endpoint's own. It keeps both until it is answered and for a window after that. So of the endpoint's permits, and of
/// the line before it, such calls never have more than the smaller limit counts, and the rest is left to other calls.
final class StoreHost: Sendable {
  typealias Instant = ContinuousClock.Instant

  /// The way to one endpoint.
  private struct Lanes {
    let all: Lane
    /// For calls about ids that may be invented, before `all`.
    let unknownIDs: Lane
  }

  /// What part of an endpoint's rate and line calls about ids that may be invented get at most; at least one.
  static let shareOfUnknownIDs = (numerator: 3, denominator: 5)

  /// The most who wait for their turn at one endpoint. At the highest rate that is more than anybody waits for.
  static let maximumWaiting = 1_000
  /// What a request gets at least, once it may go; who is patient for less than five times as long gives it a fifth.
  static let shortestTimeout = Duration.seconds(1)

  let environment: Environment
  let address: AppStoreAddress
  private let lanes: [Endpoint: Lanes]
  private let circuit = Mutex(Circuit())
  private let clock: StoreClock

  init(_ environment: Environment, at address: AppStoreAddress, clock: StoreClock) {
    self.environment = environment
    self.address = address
    self.clock = clock
    lanes = Dictionary(
      uniqueKeysWithValues: Endpoint.allCases.map { endpoint in
        let (count, window) = endpoint.allowance(in: environment)
        func lane(_ count: Int, _ maximumWaiting: Int) -> Lane {
          Lane(RateLimit(count: count, window: window, maximumWaiting: maximumWaiting), clock: clock)
        }
        return (
          endpoint,
          Lanes(
            all: lane(count, Self.maximumWaiting),
            unknownIDs: lane(Self.share(of: count), Self.share(of: Self.maximumWaiting)))
        )
      })
  }

  private static func share(of count: Int) -> Int {
    max(1, count * shareOfUnknownIDs.numerator / shareOfUnknownIDs.denominator)
  }

  /// Whether it is left alone, or was and has not answered since.
  var isLeftAlone: Bool { circuit.withLock { $0.isOpen } }

  /// Carries out a call, waiting and retrying as long as the caller will.
  ///
  /// - Parameters:
  ///   - isOfUnknownID: whether the call is about an id that may be invented.
  ///   - deadline: when the caller's patience ends.
  ///   - send: sends the one request, within a time.
  func carryOut(
    _ endpoint: Endpoint, isOfUnknownID: Bool, by deadline: Instant, _ send: (Duration) async -> ServerAnswer
  ) async -> ServerAnswer {
    if let wait = circuit.withLock({ $0.wait(at: clock.instant()) }) {
      return .failure(.circuitOpen(retryAfter: wait))
    }
    // Every endpoint has its lanes.
    guard let both = lanes[endpoint] else { return .failure(.invalidArgument("endpoint")) }
    let lanes = isOfUnknownID ? [both.unknownIDs, both.all] : [both.all]
    let latest = deadline - min(Self.shortestTimeout, (deadline - clock.instant()) / 5)
    var schedule = RetrySchedule()
    while true {
      if let refusal = await enter(lanes, by: latest) { return .failure(refusal) }
      guard let pass = circuit.withLock({ $0.ask(at: clock.instant()) }) else {
        for lane in lanes { lane.returned() }
        return .failure(.circuitOpen(retryAfter: circuit.withLock { $0.wait(at: clock.instant()) } ?? .zero))
      }
      let answer = await send(max(deadline - clock.instant(), .milliseconds(1)))
      // Before the permit is given back, which lets the next one go.
      if case .failure(.rejected(let rejection)) = answer, rejection.isRateLimit {
        let length = RateLimitPause(rejection, at: clock.date()).length
        both.all.pause(for: length)
        both.unknownIDs.pause(for: length)
      }
      for lane in lanes { lane.answered() }
      guard case .failure(let error) = answer else {
        circuit.withLock { $0.answered() }
        return answer
      }
      let pause = schedule.pause(after: error, at: clock.date(), jitter: clock.jitter())
      let isTriedAgain = pause.map { clock.instant() + $0 < latest } ?? false
      // What is tried again may yet succeed; but a probe that fails has shown what it was sent to find out.
      if report(error, under: pass, isLast: !isTriedAgain) || !isTriedAgain { return answer }
      do {
        if let pause, pause > .zero { try await clock.sleep(clock.instant() + pause) }
      } catch {
        return .failure(.transport(error))
      }
    }
  }

  /// Takes a permit of each lane in turn, or none.
  ///
  /// - Returns: why the call may not go; nil if it may.
  private func enter(_ lanes: [Lane], by latest: Instant) async -> AppStoreServerError? {
    for (place, lane) in lanes.enumerated() {
      guard let refusal = await lane.enter(by: latest) else { continue }
      for entered in lanes[..<place] { entered.returned() }
      return refusal
    }
    return nil
  }

  /// Tells the circuit what came of a request.
  ///
  /// - Returns: whether it was a probe that failed.
  private func report(_ error: AppStoreServerError, under pass: Circuit.Pass, isLast: Bool) -> Bool {
    circuit.withLock { circuit in
      switch error.meaning {
      case .answer: circuit.answered()
      case .outage where isLast || pass.isProbe:
        circuit.failed(pass, at: clock.instant(), jitter: clock.jitter())
        return pass.isProbe
      case .outage: break
      case .nothing: circuit.abandoned(pass, at: clock.instant())
      }
      return false
    }
  }
}

extension AppStoreServerError {
  /// What an error says of the server.
  fileprivate enum Meaning {
    /// It answers: a request that it refuses is the client's fault.
    case answer
    /// It cannot be reached, or is broken.
    case outage
    /// Nothing: it was not asked, or the asker went away.
    case nothing
  }

  fileprivate var meaning: Meaning {
    switch self {
    case .rejected(let rejection): (400..<500).contains(rejection.status) ? .answer : .outage
    case .unauthorizedWithoutJSON, .transactionNotFound: .answer
    case .transport(let error): error is CancellationError ? .nothing : .outage
    case .undecodableAnswer: .outage
    case .invalidArgument, .tokenNotSigned, .overloaded, .circuitOpen: .nothing
    }
  }
}
