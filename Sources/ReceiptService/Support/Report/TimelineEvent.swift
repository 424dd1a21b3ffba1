import Foundation
import Postgres

/// A row of the view `support_timeline`.
struct TimelineEvent: Sendable {
  var at: Date
  var event: String
  var what: String
  var reference: String
  var source: String

  init(_ row: Row) throws {
    at = try row.decode("at")
    event = try row.decode("event")
    what = try row.decode("what")
    reference = try row.decode("reference")
    source = try row.decode("source")
  }
}
