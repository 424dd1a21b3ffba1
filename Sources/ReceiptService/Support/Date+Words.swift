import FoundationEssentials

import enum HTTP.RFC3339

extension Date {
  /// As support reads it: UTC, whole seconds, `2026-11-21T10:00:00Z`.
  var inWords: String {
    RFC3339.string(from: self)
  }
}
