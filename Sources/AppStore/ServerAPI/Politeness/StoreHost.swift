import FoundationEssentials
import Synchronization

/// The server of one environment, and how one app asks it without doing harm: each endpoint at its rate, failures
/// retried where Apple says so, and not at all while the server is down.
final class StoreHost: Sendable {
  typealias Instant = ContinuousClock.Instant

  /// The most who wait for their turn at one endpoint. At the highest rate that is more than anybody waits for.
  static let maximumWaiting = 1_000
  /// What a request gets at least, once it may go; who is patient for less than five times as long gives it a fifth.
  static let shortestTimeout = Duration.seconds(1)

  let environment: Environment
  let address: AppStoreAddress
  private let lanes: [Endpoint: Lane]
  private let circuit = Mutex(Circuit())
  private let clock: StoreClock

  init(_ environment: Environment, at address: AppStoreAddress, clock: StoreClock) {
    self.environment = environment
    self.address = address
    self.clock = clock
    lanes = Dictionary(
      uniqueKeysWithValues: Endpoint.allCases.map { endpoint in
        let (count, window) = endpoint.allowance(in: environment)
        return (
          endpoint,
          Lane(RateLimit(count: count, window: window, maximumWaiting: Self.maximumWaiting), clock: clock)
        )
      })
  }

  /// Whether it is left alone, or was and has not answered since.
  var isLeftAlone: Bool { circuit.withLock { $0.isOpen } }

  /// Carries out a call, waiting and retrying as long as the caller will.
  ///
  /// - Parameters:
  ///   - deadline: when the caller's patience ends.
  ///   - send: sends the one request, within a time.
  func carryOut(
    _ endpoint: Endpoint, by deadline: Instant, _ send: (Duration) async -> ServerAnswer
  ) async -> ServerAnswer {
    if let wait = circuit.withLock({ $0.wait(at: clock.instant()) }) {
      return .failure(.circuitOpen(retryAfter: wait))
    }
    // Every endpoint has its lane.
    guard let lane = lanes[endpoint] else { return .failure(.invalidArgument("endpoint")) }
    let latest = deadline - min(Self.shortestTimeout, (deadline - clock.instant()) / 5)
    var schedule = RetrySchedule()
    while true {
      if let refusal = await lane.enter(by: latest) { return .failure(refusal) }
      guard let pass = circuit.withLock({ $0.ask(at: clock.instant()) }) else {
        lane.returned()
        return .failure(.circuitOpen(retryAfter: circuit.withLock { $0.wait(at: clock.instant()) } ?? .zero))
      }
      let answer = await send(max(deadline - clock.instant(), .milliseconds(1)))
      // Before the permit is given back, which lets the next one go.
      if case .failure(.rejected(let rejection)) = answer, rejection.isRateLimit {
        lane.pause(for: RateLimitPause(rejection, at: clock.date()).length)
      }
      lane.answered()
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
