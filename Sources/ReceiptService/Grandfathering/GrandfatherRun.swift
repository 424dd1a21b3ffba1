import FoundationEssentials
import Postgres
import Subscriptions

extension Service {
  /// Awards everybody whose row in the app's own table is older than the app's date. Can be run again, also beside
  /// itself: each user gets it once.
  ///
  /// - Parameters:
  ///   - bundleID: only this app; `nil` for all that have the rule.
  ///   - isDryRun: only counts.
  /// - Returns: a report for each app that has the rule.
  /// - Throws: what the database throws; what was awarded until then stays.
  public func grandfather(
    bundleID: String? = nil, isDryRun: Bool
  ) async throws -> [GrandfatherReport] {
    var reports: [GrandfatherReport] = []
    for app in support.catalog.apps where bundleID == nil || app.bundleID == bundleID {
      guard let rule = app.grandfather else { continue }
      reports.append(try await grandfathering.run(rule, of: app, isDryRun: isDryRun))
    }
    return reports
  }
}

/// What one run did for one app.
public struct GrandfatherReport: Sendable, Hashable, CustomStringConvertible {
  var bundleID: String
  var before: Date
  /// Where the dates come from; empty where there are none.
  var sources: [String] = []
  /// Users from before the date.
  var found = 0
  /// Of these, those who did not have the award.
  var awarded = 0
  /// Rows from before the date whose user is not in `auth.users`, where that table is asked.
  var withoutUser = 0
  var isDryRun: Bool
  /// Why nothing can be said of a table.
  public internal(set) var problems: [String] = []

  /// One line, and one for each problem.
  public var description: String {
    let verb = isDryRun ? "would be awarded" : "awarded"
    let counts =
      "\(bundleID): \(found) users from before \(before.inWords) (\(sources.joined(separator: ", "))), "
      + "\(found - awarded) had it already, \(awarded) \(verb)"
      + (withoutUser == 0
        ? ""
        : "; \(withoutUser) \(withoutUser == 1 ? "row" : "rows") from before \(withoutUser == 1 ? "has" : "have") no user in auth.users")
    return ((sources.isEmpty ? [] : [counts]) + problems.map { "\(bundleID): \($0)" })
      .joined(separator: "\n")
  }
}

extension Grandfathering {
  private static let batch = 200

  fileprivate func run(
    _ rule: Grandfather, of app: App, isDryRun: Bool
  ) async throws -> GrandfatherReport {
    var report = GrandfatherReport(bundleID: app.bundleID, before: rule.before, isDryRun: isDryRun)
    let tables = ProfileTable.all.filter { app.writeTo.contains($0.mirror) }
    if tables.isEmpty {
      report.problems.append(
        "cannot know who was there before: the app writes to neither profiles nor user_preferences")
    }
    for table in tables {
      switch try await UserDates.find(for: table, in: pool) {
      case .failure(let problem): report.problems.append(problem.description)
      case .success(let dates):
        report.sources.append(dates.description)
        if let query = dates.withoutUser(before: rule.before) {
          report.withoutUser += try await pool.query(query)[0].decode(0, as: Int.self)
        }
        try await run(rule, of: app, dates, &report)
      }
    }
    return report
  }

  private func run(
    _ rule: Grandfather, of app: App, _ dates: UserDates, _ report: inout GrandfatherReport
  ) async throws {
    var last: UUID?
    while true {
      let rows = try await pool.query(
        dates.users(before: rule.before, after: last, bundleID: app.bundleID, limit: Self.batch))
      let users = try rows.map {
        (id: try $0.decode(0, as: UUID.self), hasIt: try $0.decode(1, as: Bool.self))
      }
      report.found += users.count
      let without = users.filter { !$0.hasIt }.map(\.id)
      if report.isDryRun {
        report.awarded += without.count
      } else if !without.isEmpty {
        report.awarded += try await award(rule, of: app, to: without)
      }
      guard users.count == Self.batch else { return }
      last = users.last?.id
    }
  }
}
