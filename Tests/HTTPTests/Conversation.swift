import HTTPTypes
import Platform
import Sockets

@testable import HTTP

/// A connection without a socket: passes events to a ``ConnectionState`` and records its steps. It responds to each
/// request at once, or when the test calls ``answer()``.
struct Conversation {
  enum Event: Equatable {
    case continued
    case request(String, String, [UInt8])
    case refused(Int, String)
    case abandoned
    case finished
    case closed(CloseReason)
  }

  static let second: UInt64 = 1_000_000_000

  var state: ConnectionState
  var now: MonotonicInstant
  var events: [Event] = []
  /// The options of each response that was sent.
  var answers: [ConnectionState.ResponseOptions] = []
  var answersAtOnce = true
  var maximumBodyLength = 65_536

  init(limits: HTTPLimits = HTTPLimits(), timeouts: HTTPTimeouts = HTTPTimeouts()) {
    now = MonotonicInstant(nanoseconds: 100 * Self.second)
    state = ConnectionState(limits: limits, timeouts: .init(timeouts), now: now)
  }

  var isClosed: Bool {
    events.contains { if case .closed = $0 { true } else { false } }
  }

  /// The number of responses that the client got, refusals included.
  var answerCount: Int { answers.count }

  mutating func receive(_ bytes: [UInt8]) {
    guard !isClosed else { return }
    bytes.withUnsafeBytes { state.received($0, now: now) }
    run()
  }

  mutating func receive(_ text: String) { receive(Array(text.utf8)) }

  mutating func end() {
    guard !isClosed else { return }
    state.inputEnded()
    run()
  }

  /// Completes the handler.
  mutating func answer() {
    answers.append(state.beginResponse(now: now))
    run()
  }

  mutating func advance(seconds: Double) {
    now = MonotonicInstant(nanoseconds: now.nanoseconds + UInt64(seconds * Double(Self.second)))
    guard now >= state.deadline else { return }
    _ = perform(state.deadlinePassed(now: now))
    run()
  }

  mutating func run() {
    while !isClosed, perform(state.next(now: now)) {}
  }

  private mutating func perform(_ step: ConnectionState.Step) -> Bool {
    switch step {
    case .wait:
      return false
    case .route(let head):
      pending = (head.method.rawValue, head.path)
      state.admit(maximumBodyLength: maximumBodyLength, now: now)
    case .sendContinue:
      events.append(.continued)
    case .handle(let body):
      events.append(.request(pending.0, pending.1, body))
      if answersAtOnce { answers.append(state.beginResponse(now: now)) }
    case .abandonHandler:
      events.append(.abandoned)
      answers.append(state.beginResponse(now: now))
    case .refuse(let problem):
      events.append(.refused(problem.status.code, problem.code.rawValue))
      answers.append(state.beginResponse(now: now))
    case .finishSending:
      events.append(.finished)
    case .close(let reason):
      events.append(.closed(reason))
    }
    return true
  }

  private var pending = ("", "")
}
