import Foundation

import enum HTTP.RFC3339

extension Date {
  /// UTC in whole seconds, as command output and logs show it: `2026-11-21T10:00:00Z`.
  var rfc3339: String { RFC3339.string(from: self) }
}
