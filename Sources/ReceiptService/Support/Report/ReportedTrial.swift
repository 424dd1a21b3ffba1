import Foundation

/// The app's own trial, in a report.
struct ReportedTrial: Sendable {
  var startedAt: Date
  /// `null` while free access is on: the trial is suspended.
  var endsAt: Date?
  var isRunning: Bool
  /// Why it is not counted; `null` if it is.
  var note: String?
}
