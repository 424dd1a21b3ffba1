import Foundation
import Synchronization

/// Coalesces equal concurrent requests into one and caches its result for callers that come a moment later.
final class SharedResponses: Sendable {
  typealias Instant = ContinuousClock.Instant
  private typealias Continuation = CheckedContinuation<Shared, Never>

  /// The result that one caller gets.
  private struct Shared {
    let result: ServerResult
    /// Whether another caller, with another deadline, sent the request.
    var isOfOtherCaller = false
  }

  /// A request on its way and the callers that wait for its result.
  private struct Flight {
    let latest: Instant
    var waiting: [UInt64: (continuation: Continuation, isOfOtherCaller: Bool)] = [:]
  }

  private struct State {
    var cache = ResponseCache()
    var flights: [UInt64: Flight] = [:]
    /// The flight that a new caller may join.
    var current: [RequestKey: UInt64] = [:]
    var lastID: UInt64 = 0

    mutating func newID() -> UInt64 {
      lastID += 1
      return lastID
    }
  }

  /// How far the deadline of a joined request may lie beyond the caller's own.
  static let tolerance = Duration.seconds(1)

  private let state = Mutex(State())
  private let clock: StoreClock

  init(clock: StoreClock) { self.clock = clock }

  /// Returns the result of a request.
  ///
  /// No caller owns the request: a caller that is cancelled leaves the request to the others.
  ///
  /// - Parameters:
  ///   - deadline: the caller's deadline.
  ///   - maximumAge: the largest age of a cached result.
  ///   - send: sends the request; ends at the deadline at the latest.
  func result(
    of request: RequestKey, by deadline: Instant, maximumAge: TimeInterval,
    send: @escaping @Sendable () async -> ServerResult
  ) async -> ServerResult {
    while true {
      let shared = await share(request, deadline, maximumAge, send)
      // The other caller may have had an earlier deadline.
      guard shared.isOfOtherCaller, case .failure(.overloaded(let wait)) = shared.result,
        clock.instant() + wait < deadline
      else { return shared.result }
    }
  }

  /// Empties the cache after a change. New callers do not join requests from before it.
  func invalidate() {
    state.withLock { state in
      state.cache.removeAll()
      state.current = [:]
    }
  }

  private func share(
    _ request: RequestKey, _ deadline: Instant, _ maximumAge: TimeInterval,
    _ send: @escaping @Sendable () async -> ServerResult
  ) async -> Shared {
    let id = state.withLock { $0.newID() }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let (cached, started) = state.withLock { state -> (ServerResult?, UInt64?) in
          let date = clock.cacheDate()
          if let result = state.cache.result(of: request, at: date, maximumAge: maximumAge) {
            return (result, nil)
          }
          // Do not join a request that may last beyond the caller's deadline. The tolerance covers callers that came
          // together, of which any may have sent the request.
          if let flight = state.current[request], let latest = state.flights[flight]?.latest,
            latest <= deadline + Self.tolerance
          {
            state.flights[flight]?.waiting[id] = (continuation, true)
            return (nil, nil)
          }
          let flight = state.newID()
          state.flights[flight] = Flight(latest: deadline, waiting: [id: (continuation, false)])
          state.current[request] = flight
          return (nil, flight)
        }
        if let cached { return continuation.resume(returning: Shared(result: cached)) }
        if let started { Task { self.finish(started, request, await send()) } }
        // A cancellation before this line had no waiting caller to remove.
        if Task.isCancelled { leave(id) }
      }
    } onCancel: {
      leave(id)
    }
  }

  private func leave(_ id: UInt64) {
    let caller = state.withLock { state -> (continuation: Continuation, isOfOtherCaller: Bool)? in
      for flight in state.flights.keys {
        if let caller = state.flights[flight]?.waiting.removeValue(forKey: id) { return caller }
      }
      return nil
    }
    caller?.continuation.resume(returning: Shared(result: .failure(.transport(CancellationError()))))
  }

  private func finish(_ flight: UInt64, _ request: RequestKey, _ result: ServerResult) {
    let waiting = state.withLock { state in
      // A request from before a change is not current any more and is not cached.
      if state.current[request] == flight {
        state.current[request] = nil
        state.cache.insert(result, for: request, at: clock.cacheDate())
      }
      return state.flights.removeValue(forKey: flight)?.waiting.values.map { $0 } ?? []
    }
    for caller in waiting {
      caller.continuation.resume(
        returning: Shared(result: result, isOfOtherCaller: caller.isOfOtherCaller))
    }
  }
}
