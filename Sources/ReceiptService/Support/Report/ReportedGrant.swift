import Foundation

/// A grant, in a report.
struct ReportedGrant: Sendable {
  var grant: String
  var tier: String
  var startsAt: Date
  var endsAt: Date?
  var grantedBy: String
  var reason: String
  var revokedAt: Date?
  var revokedBy: String?
  var isOpen: Bool
  /// Why an open grant is not counted; `null` if it is counted or has ended.
  var note: String?
}
