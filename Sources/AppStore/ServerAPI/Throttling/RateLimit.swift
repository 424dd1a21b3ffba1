/// A rate limiter for one endpoint: at most `count` requests arrive at the store in any `window`.
///
/// It has `count` permits. A request takes one, and the permit rests for one window after the response. Of any
/// `count + 1` requests two used the same permit, so the later one left a whole window after the earlier one arrived.
/// The bound holds however unevenly the network delays requests. A token bucket of that size lets twice as many through
/// in a window, and a window over departure times breaks when one request arrives late. The price: a permit is unusable
/// while its request is under way.
///
/// A request without a permit waits in a FIFO queue. A request that would wait too long is refused at once.
struct RateLimit {
  typealias Instant = ContinuousClock.Instant

  /// The answer to a request for a permit.
  enum Admission: Equatable {
    /// The request has a permit.
    case go
    /// The request is in the queue; `tick` admits or refuses it later.
    case wait
    /// The request would wait at least this long.
    case refused(Duration)
  }

  /// The queued requests that `tick` admitted or refused.
  struct Effects: Equatable {
    var admitted: [UInt64] = []
    var refused: [UInt64] = []
    /// The time after which a refused request may be repeated.
    var retryAfter = Duration.zero
  }

  private struct Waiter {
    let id: UInt64
    let latest: Instant
  }

  let count: Int
  let window: Duration
  let maximumWaiting: Int

  private var idle: Int
  /// When each resting permit is ready. Responses are reported in order of time, so these ascend.
  private var resting: [Instant] = []
  private var queue: [Waiter] = []
  private var pausedUntil: Instant?

  /// - Parameters:
  ///   - count: the largest number of requests in a window.
  ///   - maximumWaiting: the bound of the queue; further requests are refused.
  init(count: Int, window: Duration, maximumWaiting: Int) {
    self.count = count
    self.window = window
    self.maximumWaiting = maximumWaiting
    idle = count
  }

  /// Requests a permit.
  ///
  /// - Parameter latest: the latest instant at which it is of use.
  mutating func ask(_ id: UInt64, at now: Instant, latest: Instant) -> Admission {
    if queue.isEmpty, now <= latest, takePermit(at: now) { return .go }
    let wait = wait(behind: queue.count, at: now)
    guard queue.count < maximumWaiting, now + wait <= latest else { return .refused(wait) }
    queue.append(Waiter(id: id, latest: latest))
    return .wait
  }

  /// Gives a permit back after the response arrived, or when it is certain that none will arrive.
  mutating func answered(at now: Instant) { resting.append(now + window) }

  /// Gives a permit back that no request used.
  mutating func returned() { idle += 1 }

  /// Admits no request before this instant, because the store asked for a pause.
  mutating func pause(until instant: Instant) { pausedUntil = max(instant, pausedUntil ?? instant) }

  /// Removes a request from the queue; false if it is not there.
  mutating func leave(_ id: UInt64) -> Bool {
    guard let index = queue.firstIndex(where: { $0.id == id }) else { return false }
    queue.remove(at: index)
    return true
  }

  /// Admits queued requests that have a permit and refuses those that are too late.
  mutating func tick(at now: Instant) -> Effects {
    var effects = Effects()
    // A request that cannot be admitted before its deadline is refused now.
    let opening = max(now, pausedUntil ?? now)
    refuse(&effects) { $0.latest < opening }
    while let first = queue.first, takePermit(at: now) {
      effects.admitted.append(first.id)
      queue.removeFirst()
    }
    refuse(&effects) { $0.latest <= now }
    if !effects.refused.isEmpty { effects.retryAfter = wait(behind: queue.count, at: now) }
    return effects
  }

  private mutating func refuse(_ effects: inout Effects, _ isLate: (Waiter) -> Bool) {
    guard queue.contains(where: isLate) else { return }
    effects.refused += queue.filter(isLate).map(\.id)
    queue.removeAll(where: isLate)
  }

  /// The next instant at which `tick` has an effect without another event; nil if there is none.
  var nextTick: Instant? {
    guard let tooLate = queue.map(\.latest).min() else { return nil }
    let permit = idle > 0 ? pausedUntil : resting.first.map { max($0, pausedUntil ?? $0) }
    return permit.map { min($0, tooLate) } ?? tooLate
  }

  var waitingCount: Int { queue.count }

  private mutating func takePermit(at now: Instant) -> Bool {
    if let pausedUntil {
      guard pausedUntil <= now else { return false }
      self.pausedUntil = nil
    }
    let rested = resting.prefix { $0 <= now }.count
    resting.removeFirst(rested)
    idle += rested
    guard idle > 0 else { return false }
    idle -= 1
    return true
  }

  /// The wait behind so many queued requests, if the requests under way are answered soon.
  private func wait(behind others: Int, at now: Instant) -> Duration {
    let (rounds, place) = others.quotientAndRemainder(dividingBy: count)
    let rested = place - idle
    let ready =
      rested < 0 ? now : rested < resting.count ? max(resting[rested], now) : now + round
    return max(ready, pausedUntil ?? ready) + round * rounds - now
  }

  /// A window plus a margin for the response time.
  private var round: Duration { window + window / 20 }
}
