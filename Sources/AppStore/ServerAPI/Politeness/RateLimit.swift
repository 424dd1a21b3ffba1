/// How often an endpoint may be asked: at most `count` requests in any `window`, as the store sees them arrive.
///
/// There are `count` permits. A request takes one, and the permit rests for one window after the request was
/// *answered*. Of any `count + 1` requests two have used the same permit, so the later one left a whole window after
/// the earlier one had arrived: the store never sees more, however unevenly the network delays them. A bucket of that
/// size that refills lets twice as many through in a window, and a window over times of departure breaks when one
/// request is slow to arrive. The price: a permit is out of use for as long as the answer took.
///
/// Who finds no permit stands in line, first come first served; who would wait too long is told so at once.
struct RateLimit {
  typealias Instant = ContinuousClock.Instant

  /// What becomes of one who asks.
  enum Admission: Equatable {
    case go
    /// The line; `tick` says when it goes on.
    case wait
    /// It would take at least this long.
    case refused(Duration)
  }

  /// What has to be told to those in line.
  struct Effects: Equatable {
    var admitted: [UInt64] = []
    var refused: [UInt64] = []
    /// How long the refused ones had better wait before they ask again.
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
  /// When each resting permit is ready. Answers come in the order of time, so these ascend.
  private var resting: [Instant] = []
  private var line: [Waiter] = []
  private var pausedUntil: Instant?

  /// - Parameters:
  ///   - count: the most requests in a window.
  ///   - maximumWaiting: the longest line; whoever comes then is refused.
  init(count: Int, window: Duration, maximumWaiting: Int) {
    self.count = count
    self.window = window
    self.maximumWaiting = maximumWaiting
    idle = count
  }

  /// Asks for a permit.
  ///
  /// - Parameter latest: until when it is of use.
  mutating func ask(_ id: UInt64, at now: Instant, latest: Instant) -> Admission {
    if line.isEmpty, now <= latest, takePermit(at: now) { return .go }
    let wait = wait(behind: line.count, at: now)
    guard line.count < maximumWaiting, now + wait <= latest else { return .refused(wait) }
    line.append(Waiter(id: id, latest: latest))
    return .wait
  }

  /// A request was answered, or it is certain that it never will be.
  mutating func answered(at now: Instant) { resting.append(now + window) }

  /// A permit was not used after all.
  mutating func returned() { idle += 1 }

  /// Nobody goes before this instant: the store said so.
  mutating func pause(until instant: Instant) { pausedUntil = max(instant, pausedUntil ?? instant) }

  /// One who waits went away; false if it does not wait.
  mutating func leave(_ id: UInt64) -> Bool {
    guard let place = line.firstIndex(where: { $0.id == id }) else { return false }
    line.remove(at: place)
    return true
  }

  /// Lets the line go on, as far as it may.
  mutating func tick(at now: Instant) -> Effects {
    var effects = Effects()
    // Whoever cannot go in time is not kept for nothing.
    let opening = max(now, pausedUntil ?? now)
    refuse(&effects) { $0.latest < opening }
    while let first = line.first, takePermit(at: now) {
      effects.admitted.append(first.id)
      line.removeFirst()
    }
    refuse(&effects) { $0.latest <= now }
    if !effects.refused.isEmpty { effects.retryAfter = wait(behind: line.count, at: now) }
    return effects
  }

  private mutating func refuse(_ effects: inout Effects, _ isLate: (Waiter) -> Bool) {
    guard line.contains(where: isLate) else { return }
    effects.refused += line.filter(isLate).map(\.id)
    line.removeAll(where: isLate)
  }

  /// When `tick` has something to do, if nothing else happens before; nil if then nothing will.
  var nextTick: Instant? {
    guard let tooLate = line.map(\.latest).min() else { return nil }
    let permit = idle > 0 ? pausedUntil : resting.first.map { max($0, pausedUntil ?? $0) }
    return permit.map { min($0, tooLate) } ?? tooLate
  }

  var waitingCount: Int { line.count }

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

  /// How long somebody will wait with so many before them, if what is under way is answered soon.
  private func wait(behind others: Int, at now: Instant) -> Duration {
    let (rounds, place) = others.quotientAndRemainder(dividingBy: count)
    let rested = place - idle
    let ready =
      rested < 0 ? now : rested < resting.count ? max(resting[rested], now) : now + round
    return max(ready, pausedUntil ?? ready) + round * rounds - now
  }

  /// A window, and a little for the answer.
  private var round: Duration { window + window / 20 }
}
