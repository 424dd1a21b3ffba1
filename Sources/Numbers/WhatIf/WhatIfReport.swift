import Foundation
import Subscriptions
import Text

/// What would change for the customers of an app: by kind of change, the gravest first.
package struct WhatIfReport: Sendable {
  package let bundleID: String
  package let app: String
  /// Whether the other configuration does not have the app.
  package let isMissing: Bool
  /// How many customers were compared.
  package var customers = 0

  /// The customers of a kind of change.
  package struct Group: Sendable {
    /// How many notice it at once.
    package var now = 0
    package var later = 0
    /// When the first of the others notices it.
    package var firstLater: Date?
    package var revenue = MonthlyRevenue()
  }

  package private(set) var groups: [AccessChange.Kind: Group] = [:]
  /// How many children's devices of these customers would be paused.
  package private(set) var pausedChildren = 0
  /// How many would open.
  package private(set) var openedChildren = 0

  init(app: App, isMissing: Bool) {
    bundleID = app.bundleID
    self.app = app.name
    self.isMissing = isMissing
  }

  /// - Parameter instant: that of the comparison.
  mutating func add(_ finding: WhatIf.Finding, at instant: Date) {
    var group = groups[finding.change.kind] ?? Group()
    if finding.change.at <= instant {
      group.now += 1
    } else {
      group.later += 1
      group.firstLater = min(group.firstLater ?? finding.change.at, finding.change.at)
    }
    group.revenue.add(finding.revenue)
    groups[finding.change.kind] = group
    let opened = finding.children.after - finding.children.before
    if opened < 0 { pausedChildren -= opened } else { openedChildren += opened }
  }
}

extension WhatIfReport {
  /// What happens to children's devices, in words; `nil` for nothing.
  package var childrenWords: String? {
    let words = [(pausedChildren, "paused"), (openedChildren, "opened")].filter { $0.0 > 0 }
      .map { "\($0.0) would be \($0.1)" }
    return words.isEmpty ? nil : "children's devices: " + words.joined(separator: ", ")
  }
}

extension WhatIfReport: CustomStringConvertible {
  /// Text for a terminal.
  package var description: String {
    let noticing = groups.values.reduce(0) { $0 + $1.now + $1.later }
    var lines = ["\(app) (\(bundleID)): \(noticing) of \(customers) customers would notice"]
    if isMissing { lines.append("  the other configuration does not have the app") }
    for (kind, group) in groups.sorted(by: { $0.key < $1.key }) {
      let revenue = group.revenue.words
      let later =
        group.firstLater.map { "\(group.later) later, the first on \(Day(of: $0))" } ?? ""
      let times = [group.now > 0 ? "\(group.now) at once" : "", later].filter { !$0.isEmpty }
      lines.append("  \(kind.words): \(group.now + group.later)")
      lines.append("    \(times.joined(separator: ", "))")
      if !revenue.isEmpty { lines.append("    they stand for \(revenue) a month") }
    }
    if let childrenWords { lines.append("  \(childrenWords)") }
    return lines.joined(separator: "\n")
  }
}

extension WhatIf.Finding {
  /// The columns of ``csv``.
  package static let csvColumns =
    "bundle_id,customer,change,at,access_before,access_after,tier_before,tier_after,monthly_revenue"

  /// A line of CSV (RFC 4180), without its end.
  package var csv: String {
    [
      bundleID, customer.id, change.kind.words, change.at.rfc3339, before.status.rawValue,
      after.status.rawValue,
      before.tier ?? "", after.tier ?? "", revenue.words,
    ].map(\.csvField).joined(separator: ",")
  }
}

extension String {
  /// A text as a field of CSV. A spreadsheet takes a field with such a beginning for a formula.
  fileprivate var csvField: String {
    let text = first.map { "=+-@\t\r".contains($0) } ?? false ? "'" + self : self
    guard text.contains(where: { ",\"\n\r".contains($0) }) else { return text }
    return "\"" + text.replacing("\"", with: "\"\"") + "\""
  }
}
