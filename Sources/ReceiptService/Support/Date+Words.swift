import FoundationEssentials

import enum HTTP.RFC3339

extension Date {
  /// As support reads it: UTC, whole seconds, `2026-11-21T10:00:00Z`.
  var inWords: String {
    RFC3339.string(from: Date(timeIntervalSince1970: timeIntervalSince1970.rounded(.down)))
  }
}
