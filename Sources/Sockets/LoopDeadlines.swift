import Dispatch
import Platform

/// The deadlines of one event loop's connections: a timer wheel and the timer that advances it.
///
/// The timer is set again only for a deadline before the one that it is set for. In a steady stream of requests that is
/// rare.
final class LoopDeadlines {
  private let queue: DispatchQueue
  private let timer: any DispatchSourceTimer
  private var wheel = DeadlineWheel(now: .now)
  private var connections: [Connection?] = []
  private var freeSlots: [Int] = []
  /// When the timer fires.
  private var firesAt = MonotonicInstant.distantFuture

  init(queue: DispatchQueue) {
    self.queue = queue
    timer = DispatchSource.makeTimerSource(queue: queue)
  }

  func start() {
    let bound = LoopBound(self, to: queue)
    timer.setEventHandler { bound.value.timerFired() }
    timer.schedule(deadline: .distantFuture)
    timer.resume()
  }

  /// Ends the timer, which retains this object until then.
  func stop() { timer.cancel() }

  /// Adds the connection.
  ///
  /// - Returns: the slot under which it schedules its deadlines.
  func add(_ connection: Connection) -> Int {
    if let slot = freeSlots.popLast() {
      connections[slot] = connection
      return slot
    }
    connections.append(connection)
    return connections.count - 1
  }

  func remove(_ slot: Int) {
    wheel.cancel(slot)
    connections[slot] = nil
    freeSlots.append(slot)
  }

  /// Checks the connection's deadline at `deadline` or earlier.
  func schedule(_ slot: Int, at deadline: MonotonicInstant) {
    if wheel.schedule(slot, at: deadline), deadline < firesAt { setTimer() }
  }

  /// Checks the connections whose deadlines may have passed.
  private func timerFired() {
    let now = MonotonicInstant.now
    firesAt = .distantFuture
    for slot in wheel.advance(to: now) { connections[slot]?.checkDeadline(now: now) }
    setTimer()
  }

  private func setTimer() {
    guard let next = wheel.nextDue, next < firesAt else { return }
    firesAt = next
    timer.schedule(deadline: next.dispatchTime, leeway: .milliseconds(10))
  }
}
