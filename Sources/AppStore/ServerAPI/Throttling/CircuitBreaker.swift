/// A circuit breaker for one server.
///
/// Five failures in a row open it: calls fail at once for a pause. Then one request, the probe, is sent. Its success
/// closes the circuit; its failure doubles the pause.
struct CircuitBreaker {
  typealias Instant = ContinuousClock.Instant

  /// The permission to send one request; the caller reports the outcome with it.
  struct Pass: Equatable {
    let isProbe: Bool
    fileprivate let era: Int
  }

  private enum State {
    /// All requests are sent. Changes to `open` after too many failures in a row.
    case closed(failures: Int)
    /// No request is sent. Changes to `probing` with the first request after the pause.
    case open(until: Instant)
    /// The probe is on its way. Changes to `closed` on a response and to `open` on a failure.
    case probing
  }

  /// The number of failures in a row that opens the circuit.
  static let failuresToOpen = 5
  static let firstPause = Duration.seconds(1)
  static let longestPause = Duration.seconds(60)

  private var state = State.closed(failures: 0)
  /// The number of openings since the last response.
  private var openings = 0
  /// Counts state changes, so that a failure of a request from an earlier state is ignored.
  private var era = 0

  /// Whether the circuit is open or a probe is on its way.
  var isOpen: Bool { if case .closed = state { false } else { true } }

  /// The time until a request may be sent; nil if one may be sent now.
  func wait(at now: Instant) -> Duration? {
    switch state {
    case .closed: nil
    case .open(let end): end > now ? end - now : nil
    case .probing: Self.firstPause
    }
  }

  /// Requests permission to send; nil if `wait` is not nil.
  mutating func ask(at now: Instant) -> Pass? {
    guard wait(at: now) == nil else { return nil }
    if case .closed = state { return Pass(isProbe: false, era: era) }
    change(to: .probing)
    return Pass(isProbe: true, era: era)
  }

  /// Reports any response of the server, also to a request from before the last state change.
  mutating func answered() {
    if case .closed(0) = state { return }
    openings = 0
    change(to: .closed(failures: 0))
  }

  /// Reports that the server was unreachable or its response was broken.
  ///
  /// - Parameter jitter: from 0 to 1. Half of the pause is fixed and half is random, so that many clients of one
  ///   server do not return in step.
  mutating func failed(_ pass: Pass, at now: Instant, jitter: Double) {
    guard pass.era == era else { return }
    if case .closed(let failures) = state, failures + 1 < Self.failuresToOpen {
      state = .closed(failures: failures + 1)
      return
    }
    let pause = min(Self.firstPause * (1 << min(openings, 10)), Self.longestPause)
    openings += 1
    change(to: .open(until: now + pause * (0.5 + 0.5 * jitter)))
  }

  /// Reports that the outcome stays unknown. After an abandoned probe the next request is the probe.
  mutating func abandoned(_ pass: Pass, at now: Instant) {
    if pass.era == era, pass.isProbe { change(to: .open(until: now)) }
  }

  private mutating func change(to state: State) {
    self.state = state
    era += 1
  }
}
