/// Whether a server is worth asking at all.
///
/// After some failures in a row nobody asks for a while, and whoever wants to is told so at once. Then one request
/// goes, the probe; if it is answered all go again, else the while grows.
struct Circuit {
  typealias Instant = ContinuousClock.Instant

  /// Leave to ask, to be handed back with what came of it.
  struct Pass: Equatable {
    let isProbe: Bool
    fileprivate let era: Int
  }

  private enum State {
    /// Everybody may ask. To `open` at the last of so many failures in a row.
    case closed(failures: Int)
    /// Nobody may ask. To `probing` for the first who asks from then on.
    case open(until: Instant)
    /// One is asking. To `closed` if it gets an answer, to `open` if not.
    case probing
  }

  /// Failures in a row that open it.
  static let failuresToOpen = 5
  static let firstPause = Duration.seconds(1)
  static let longestPause = Duration.seconds(60)

  private var state = State.closed(failures: 0)
  /// How often it opened since there was an answer.
  private var openings = 0
  /// Counts the changes of state, so that failures of requests from before one do not count after it.
  private var era = 0

  /// Whether the server has shown no sign of life since it failed too often.
  var isOpen: Bool { if case .closed = state { false } else { true } }

  /// How long nobody may ask; nil if one may.
  func wait(at now: Instant) -> Duration? {
    switch state {
    case .closed: nil
    case .open(let end): end > now ? end - now : nil
    case .probing: Self.firstPause
    }
  }

  /// Asks for leave; nil if `wait` is not nil.
  mutating func ask(at now: Instant) -> Pass? {
    guard wait(at: now) == nil else { return nil }
    if case .closed = state { return Pass(isProbe: false, era: era) }
    change(to: .probing)
    return Pass(isProbe: true, era: era)
  }

  /// The server answered, whatever it said. So it does even if the request is from before the last change.
  mutating func answered() {
    if case .closed(0) = state { return }
    openings = 0
    change(to: .closed(failures: 0))
  }

  /// The server could not be reached, or did not answer as it should.
  ///
  /// - Parameter jitter: from 0 to 1. Half of the pause is certain, half is chance, so that many clients that lost
  ///   the same server do not come back in step.
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

  /// It will not be known what the server would have said: the next one to ask is the probe.
  mutating func abandoned(_ pass: Pass, at now: Instant) {
    if pass.era == era, pass.isProbe { change(to: .open(until: now)) }
  }

  private mutating func change(to state: State) {
    self.state = state
    era += 1
  }
}
