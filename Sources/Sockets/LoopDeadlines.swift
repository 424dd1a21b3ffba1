/// The deadlines of one event loop's connections: a wheel, and when it has to be turned next.
///
/// That is only worked out anew when something earlier than before has to be noticed, which in a steady stream
/// of requests is hardly ever.
final class LoopDeadlines {
  private var wheel = DeadlineWheel(now: .now)
  private var members: [Connection?] = []
  private var freeSlots: [Int] = []
  /// When the wheel has to be turned, whatever else the loop does.
  private var nextTurn = MonotonicInstant.distantFuture

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
    if wheel.schedule(slot, at: deadline), deadline < nextTurn { planNextTurn() }
  }

  /// Whether some may have passed.
  var areDue: Bool { nextTurn != .distantFuture && nextTurn <= .now }

  /// How many milliseconds the loop may sleep; -1 is for ever.
  var patience: Int32 {
    if nextTurn == .distantFuture { return -1 }
    let nanoseconds = nextTurn.nanoseconds(since: .now)
    return nanoseconds == 0 ? 0 : Int32(clamping: nanoseconds / 1_000_000 + 1)
  }

  /// Asks those whose deadlines may have passed.
  func turn(to now: MonotonicInstant) {
    nextTurn = .distantFuture
    for slot in wheel.advance(to: now) { members[slot]?.checkDeadline(now: now) }
    planNextTurn()
  }

  private func planNextTurn() {
    if let next = wheel.nextDue, next < nextTurn { nextTurn = next }
  }
}
