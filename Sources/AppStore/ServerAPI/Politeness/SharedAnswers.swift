import FoundationEssentials
import Synchronization

/// One request on its way for each question, whoever asks it, and its answer for whoever asks a moment later.
final class SharedAnswers: Sendable {
  typealias Instant = ContinuousClock.Instant
  private typealias Continuation = CheckedContinuation<Shared, Never>

  /// What one gets.
  private struct Shared {
    let answer: ServerAnswer
    /// Whether it comes from a request with the patience of another.
    var isOthers = false
  }

  /// A request on its way, and who waits for its answer.
  private struct Flight {
    let latest: Instant
    var waiting: [UInt64: (continuation: Continuation, isOthers: Bool)] = [:]
  }

  private struct State {
    var memory = AnswerMemory()
    var flights: [UInt64: Flight] = [:]
    /// Which flight one who asks may join.
    var current: [Question: UInt64] = [:]
    var lastID: UInt64 = 0

    mutating func newID() -> UInt64 {
      lastID += 1
      return lastID
    }
  }

  /// How much longer than its patience one waits for the answer to another's question.
  static let tolerance = Duration.seconds(1)

  private let state = Mutex(State())
  private let clock: StoreClock

  init(clock: StoreClock) { self.clock = clock }

  /// The answer to a question.
  ///
  /// The request belongs to nobody who waits for it: whoever goes away goes alone.
  ///
  /// - Parameters:
  ///   - deadline: when the asker's patience ends.
  ///   - maximumAge: how old a remembered answer may be.
  ///   - ask: asks the store; ends at the deadline at the latest.
  func answer(
    to question: Question, by deadline: Instant, maximumAge: TimeInterval,
    ask: @escaping @Sendable () async -> ServerAnswer
  ) async -> ServerAnswer {
    while true {
      let shared = await share(question, deadline, maximumAge, ask)
      // Others may have had less patience.
      guard shared.isOthers, case .failure(.overloaded(let wait)) = shared.answer,
        clock.instant() + wait < deadline
      else { return shared.answer }
    }
  }

  /// Forgets what was answered: something has changed. What is on its way is not joined any more.
  func forget() {
    state.withLock { state in
      state.memory.forget()
      state.current = [:]
    }
  }

  private func share(
    _ question: Question, _ deadline: Instant, _ maximumAge: TimeInterval,
    _ ask: @escaping @Sendable () async -> ServerAnswer
  ) async -> Shared {
    let id = state.withLock { $0.newID() }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let (remembered, started) = state.withLock { state -> (ServerAnswer?, UInt64?) in
          let date = clock.answerDate()
          if let answer = state.memory.answer(to: question, at: date, maximumAge: maximumAge) {
            return (answer, nil)
          }
          // One that may take longer than the asker waits is of no use to it, nor to those who come after. A little
          // longer does not matter: of many who came together, not the one with the least time asks first.
          if let flight = state.current[question], let latest = state.flights[flight]?.latest,
            latest <= deadline + Self.tolerance
          {
            state.flights[flight]?.waiting[id] = (continuation, true)
            return (nil, nil)
          }
          let flight = state.newID()
          state.flights[flight] = Flight(latest: deadline, waiting: [id: (continuation, false)])
          state.current[question] = flight
          return (nil, flight)
        }
        if let remembered { return continuation.resume(returning: Shared(answer: remembered)) }
        if let started { Task { self.land(started, question, await ask()) } }
        // A cancellation from before found nobody waiting.
        if Task.isCancelled { leave(id) }
      }
    } onCancel: {
      leave(id)
    }
  }

  private func leave(_ id: UInt64) {
    let seat = state.withLock { state -> (continuation: Continuation, isOthers: Bool)? in
      for flight in state.flights.keys {
        if let seat = state.flights[flight]?.waiting.removeValue(forKey: id) { return seat }
      }
      return nil
    }
    seat?.continuation.resume(returning: Shared(answer: .failure(.transport(CancellationError()))))
  }

  private func land(_ flight: UInt64, _ question: Question, _ answer: ServerAnswer) {
    let waiting = state.withLock { state in
      // Not what was asked before something changed.
      if state.current[question] == flight {
        state.current[question] = nil
        state.memory.remember(answer, to: question, at: clock.answerDate())
      }
      return state.flights.removeValue(forKey: flight)?.waiting.values.map { $0 } ?? []
    }
    for seat in waiting {
      seat.continuation.resume(returning: Shared(answer: answer, isOthers: seat.isOthers))
    }
  }
}
