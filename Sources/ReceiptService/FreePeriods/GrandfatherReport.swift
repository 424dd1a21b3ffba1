import Foundation

/// The result of one `receiptd grandfather` run for one app.
public struct GrandfatherReport: Sendable, Hashable, CustomStringConvertible {
  var bundleID: String
  var before: Date
  /// The columns with the users' sign-up dates; empty if there are none.
  var sources: [String] = []
  /// Users who signed up before the date.
  var found = 0
  /// Those of them without a grant until now.
  var awarded = 0
  /// Rows from before the date whose user is not in `auth.users`, if that table is read.
  var withoutUser = 0
  var isDryRun: Bool
  /// Why the dates of a table cannot be read.
  public internal(set) var problems: [String] = []

  /// One line with the counts, and one line per problem.
  public var description: String {
    let verb = isDryRun ? "would be awarded" : "awarded"
    let counts =
      "\(bundleID): \(found) users from before \(before.rfc3339) (\(sources.joined(separator: ", "))), "
      + "\(found - awarded) had it already, \(awarded) \(verb)"
      + (withoutUser == 0
        ? ""
        : "; \(withoutUser) \(withoutUser == 1 ? "row" : "rows") from before \(withoutUser == 1 ? "has" : "have") no user in auth.users")
    return ((sources.isEmpty ? [] : [counts]) + problems.map { "\(bundleID): \($0)" })
      .joined(separator: "\n")
  }
}
