import Work

/// Counts the KPIs: the current day every few minutes, each day soon after its end, and again for a week because facts may
/// come late. One server counts at a time.
struct KPIJob: Sendable {
  let counter: KPICounter

  /// The pause after a backfilled day, as a multiple of the time that it took. Counting a day takes seconds with a million
  /// subscriptions, and requests need the database too.
  static let pauseFactor = 19

  /// Counts the days that are due, every minute.
  var job: BackgroundJob { BackgroundJob("kpi", every: .seconds(60)) { _ = try await run() } }

  /// Counts the days that are due, then deletes old events.
  /// - Parameter pause: waits after a backfilled day; tests pass their own.
  /// - Returns: the days, in the order in which they were counted.
  @discardableResult
  func run(
    pause: (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  ) async throws -> [Day] {
    var days: [Day] = []
    while !Task.isCancelled {
      let start = ContinuousClock.now
      guard let day = try await counter.countDue() else {
        _ = try await counter.deleteOldEvents()
        break
      }
      days.append(day)
      // The latest days are counted without a pause.
      if counter.isBackfill(day) { try await pause((ContinuousClock.now - start) * Self.pauseFactor) }
    }
    return days
  }
}
