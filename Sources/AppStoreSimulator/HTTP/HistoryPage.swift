import AppStore
import Foundation
import HTTP

/// A position in a customer's history, encoded as `revision`. Added and modified transactions do not move it, so that
/// none is missed between two pages.
struct HistoryPosition: Hashable, Comparable {
  let modified: Int64
  let transactionID: String

  init(of record: HistoryRecord) {
    modified = record.modified.millisecondsSince1970 ?? 0
    transactionID = record.transaction.transactionId
  }

  /// Parses a `revision`; nil for another text.
  init?(_ revision: String) {
    let parts = revision.split(separator: "_", omittingEmptySubsequences: false)
    guard parts.count == 2, let modified = Int(pathParameter: String(parts[0])), !parts[1].isEmpty,
      parts[1].utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
    else { return nil }
    self.modified = Int64(modified)
    transactionID = String(parts[1])
  }

  var revision: String { "\(modified)_\(transactionID)" }

  static func < (one: HistoryPosition, other: HistoryPosition) -> Bool {
    (one.modified, one.transactionID) < (other.modified, other.transactionID)
  }
}

/// One page of a history.
struct HistoryPage {
  let records: [HistoryRecord]
  /// The revision of the next page, also if there is none yet.
  let revision: String
  let hasMore: Bool

  /// - Parameter history: ordered by modification.
  init(of history: [HistoryRecord], after start: HistoryPosition?, isDescending: Bool, length: Int) {
    let sorted = isDescending ? history.reversed() : history
    let rest = sorted.filter { record in
      guard let start else { return true }
      let position = HistoryPosition(of: record)
      return isDescending ? position < start : start < position
    }
    records = Array(rest.prefix(length))
    hasMore = rest.count > length
    revision = records.last.map { HistoryPosition(of: $0).revision } ?? start?.revision ?? "0_0"
  }
}
