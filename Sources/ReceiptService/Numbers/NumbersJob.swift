import Logging

/// Counts each day soon after its end, the running one every few minutes, and again for a week those whose facts may
/// come late. Of several servers one counts at a time.
struct NumbersJob: Sendable {
  let numbers: Numbers
  let logger: Logger

  private static let pause = Duration.seconds(60)
  /// Years that were never counted are not counted in one go: others use the database too.
  private static let daysOfATurn = 50

  /// Counts until the task is cancelled.
  func runForever() async {
    while !Task.isCancelled {
      do {
        try await run()
      } catch {
        logger.warning("the numbers were put off", metadata: ["reason": "\(error)"])
      }
      try? await Task.sleep(for: Self.pause * Double.random(in: 0.75...1.25))
    }
  }

  /// Counts what is due, and deletes events once all is counted.
  /// - Returns: the days, in the order in which they were counted.
  @discardableResult
  func run() async throws -> [Day] {
    var days: [Day] = []
    while days.count < Self.daysOfATurn, !Task.isCancelled {
      guard let day = try await numbers.countDue() else {
        _ = try await numbers.deleteOldEvents()
        break
      }
      days.append(day)
    }
    return days
  }
}
