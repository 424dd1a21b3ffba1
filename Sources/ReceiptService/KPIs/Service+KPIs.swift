import Foundation
import Work

extension Service {
  /// Counts days again, for `receiptd kpi`.
  ///
  /// - Parameter report: called after each day, with the number of its rows.
  /// - Throws: ``SupportRefusal`` for a range that ends before it begins or in the future, and errors of the database. The
  ///   days before an error are counted.
  public func countKPIs(from first: Day, through last: Day, report: (Day, Int) -> Void) async throws {
    guard first <= last else { throw SupportRefusal.invalid("the last day is before the first") }
    guard last <= Day(of: clock.now()) else { throw SupportRefusal.invalid("\(last) is in the future") }
    var day = first
    while day <= last {
      report(day, try await kpiCounter.count(day))
      day = day.advanced(by: 1)
    }
  }
}
