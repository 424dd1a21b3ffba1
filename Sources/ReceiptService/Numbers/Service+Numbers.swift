import FoundationEssentials

extension Service {
  /// Counts days anew, as `receiptd kpi` does; any day can be counted any number of times.
  ///
  /// - Parameter report: called after each day, with the number of its rows.
  /// - Throws: ``SupportRefusal`` for a range that ends before it begins or in the future; what the database throws:
  ///   the days until then are counted.
  public func countNumbers(from first: Day, through last: Day, report: (Day, Int) -> Void) async throws {
    guard first <= last else { throw SupportRefusal.invalid("the last day is before the first") }
    guard last <= Day(of: clock.now()) else { throw SupportRefusal.invalid("\(last) has not come yet") }
    var day = first
    while day <= last {
      report(day, try await numbers.count(day))
      day = day.advanced(by: 1)
    }
  }
}
