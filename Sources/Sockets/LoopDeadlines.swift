import Dispatch

/// The deadlines of one event loop's connections: a wheel, and the one timer that turns it.
///
/// The timer is only set when something earlier than before has to be noticed, which in a steady stream
/// of requests is hardly ever.
final class LoopDeadlines {
  private let queue: DispatchQueue
  private let timer: any DispatchSourceTimer
  private var wheel = DeadlineWheel(now: .now)
  private var members: [Connection?] = []
  private var freeSlots: [Int] = []
  private var armedFor = MonotonicInstant.distantFuture

  init(queue: DispatchQueue) {
    self.queue = queue
    timer = DispatchSource.makeTimerSource(queue: queue)
  }

  func start() {
    let bound = LoopBound(self, to: queue)
    timer.setEventHandler { bound.value.turn() }
    timer.schedule(deadline: .distantFuture)
    timer.resume()
  }

  /// Ends the timer, and with it the timer's hold on this object.
  func stop() { timer.cancel() }

  /// Gives the connection a slot, under which it schedules.
  func add(_ connection: Connection) -> Int {
    if let slot = freeSlots.popLast() {
      members[slot] = connection
      return slot
    }
    members.append(connection)
    return members.count - 1
  }

  func remove(_ slot: Int) {
    wheel.cancel(slot)
    members[slot] = nil
    freeSlots.append(slot)
  }

  /// Makes sure that the connection is asked at `deadline` or earlier.
  func schedule(_ slot: Int, at deadline: MonotonicInstant) {
    if wheel.schedule(slot, at: deadline), deadline < armedFor { arm() }
  }

  private func turn() {
    let now = MonotonicInstant.now
    armedFor = .distantFuture
    for slot in wheel.advance(to: now) { members[slot]?.checkDeadline(now: now) }
    arm()
  }

  private func arm() {
    guard let next = wheel.nextDue, next < armedFor else { return }
    armedFor = next
    timer.schedule(
      deadline: DispatchTime(uptimeNanoseconds: next.nanoseconds), leeway: .milliseconds(10))
  }
}
