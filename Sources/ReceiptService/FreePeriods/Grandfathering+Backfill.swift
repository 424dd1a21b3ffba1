import Foundation
import Postgres
import Subscriptions

extension Grandfathering {
  private static let batch = 200

  func run(
    _ rule: Grandfather, of app: App, isDryRun: Bool
  ) async throws -> GrandfatherReport {
    var report = GrandfatherReport(bundleID: app.bundleID, before: rule.before, isDryRun: isDryRun)
    let tables = ProfileTable.all.filter { app.writeTo.contains($0.destination) }
    if tables.isEmpty {
      report.problems.append(
        "the users' sign-up dates are unknown: the app writes to neither profiles nor user_preferences; "
          + "set writeTo in the configuration")
    }
    for table in tables {
      switch try await SignUpDates.find(for: table, in: pool) {
      case .failure(let problem): report.problems.append(problem.description)
      case .success(let dates):
        report.sources.append(dates.description)
        if let query = dates.withoutUser(before: rule.before) {
          report.withoutUser += try await pool.query(query)[0].decode("rows", as: Int.self)
        }
        try await run(rule, of: app, dates, &report)
      }
    }
    return report
  }

  private func run(
    _ rule: Grandfather, of app: App, _ dates: SignUpDates, _ report: inout GrandfatherReport
  ) async throws {
    var last: UUID?
    while true {
      let rows = try await pool.query(
        dates.users(before: rule.before, after: last, bundleID: app.bundleID, limit: Self.batch))
      let users = try rows.map {
        (id: try $0.decode("user_id", as: UUID.self), hasGrant: try $0.decode("has_grant", as: Bool.self))
      }
      report.found += users.count
      let without = users.filter { !$0.hasGrant }.map(\.id)
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
