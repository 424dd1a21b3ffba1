import Foundation

import enum HTTP.RFC3339

/// A day in UTC.
package struct Day: Sendable, Hashable, Comparable, CustomStringConvertible {
  private static let length: TimeInterval = 86_400

  /// The first instant of the day.
  package let start: Date

  /// The day that an instant lies in.
  package init(of instant: Date) {
    let days = (instant.timeIntervalSince1970 / Self.length).rounded(.down)
    start = Date(timeIntervalSince1970: days * Self.length)
  }

  /// The day that a text such as `2026-11-20` names, or `nil`.
  package init?(_ text: String) {
    guard let start = RFC3339.date(from: text + "T00:00:00Z") else { return nil }
    self.start = start
  }

  /// The first instant of the next day.
  package var end: Date { start + Self.length }

  /// The day this number of days later, or earlier for a negative number.
  package func advanced(by days: Int) -> Day { Day(of: start + TimeInterval(days) * Self.length) }

  /// Whether the left one is earlier.
  package static func < (left: Day, right: Day) -> Bool { left.start < right.start }

  /// As `2026-11-20`.
  package var description: String { String(RFC3339.string(from: start).prefix(10)) }
}

extension Date {
  /// UTC in whole seconds, as command output and logs show it: `2026-11-21T10:00:00Z`.
  package var rfc3339: String { RFC3339.string(from: self) }
}
