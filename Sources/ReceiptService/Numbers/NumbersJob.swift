import Logging

/// Counts each day soon after its end, the running one every few minutes, and again for a week those whose facts may
/// come late. Of several servers one counts at a time.
struct NumbersJob: Sendable {
  let numbers: Numbers
  let logger: Logger

  private static let pause = Duration.seconds(60)
  /// Of the time in which days that were never counted are made up for, counting takes a twentieth: with a million
  /// subscriptions a day takes seconds, and others use the database too.
  static let restAfterDay = 19

  /// Counts until the task is cancelled.
  func runForever() async {
    while !Task.isCancelled {
      do {
        try await run()
      } catch is CancellationError {
        break
      } catch {
        logger.warning("the numbers were put off", metadata: ["reason": "\(error)"])
      }
      try? await Task.sleep(for: Self.pause * Double.random(in: 0.75...1.25))
    }
  }

  /// Counts what is due, and deletes events once all is counted.
  /// - Parameter rest: waits after a day that is made up for, for as long as it is told.
  /// - Returns: the days, in the order in which they were counted.
  @discardableResult
  func run(
    rest: (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  ) async throws -> [Day] {
    var days: [Day] = []
    while !Task.isCancelled {
      let start = ContinuousClock.now
      guard let day = try await numbers.countDue() else {
        _ = try await numbers.deleteOldEvents()
        break
      }
      days.append(day)
      // The latest days are counted when they are due, however long they take.
      if numbers.isMadeUpFor(day) { try await rest((ContinuousClock.now - start) * Self.restAfterDay) }
    }
    return days
  }
}
