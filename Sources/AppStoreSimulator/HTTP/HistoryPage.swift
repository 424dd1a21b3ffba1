import AppStore
import FoundationEssentials
import HTTP

/// A place in a customer's history, which a `revision` stands for. It stays where it is when transactions
/// are added or modified, so that none is missed between two pages.
struct HistoryPosition: Hashable, Comparable {
  let modified: Int64
  let transactionID: String

  init(of record: HistoryRecord) {
    modified = record.modified.millisecondsSince1970 ?? 0
    transactionID = record.transaction.transactionId
  }

  /// Reads a `revision`; nil for what this store did not give out.
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
  /// What the next page is asked with, also where there is none yet.
  let revision: String
  let hasMore: Bool

  /// - Parameter history: the one that was last modified last.
  init(of history: [HistoryRecord], after start: HistoryPosition?, _ filter: HistoryFilter, length: Int) {
    let sorted = filter.isDescending ? history.reversed() : history
    let rest = sorted.filter { record in
      guard filter.includes(record.transaction) else { return false }
      guard let start else { return true }
      let position = HistoryPosition(of: record)
      return filter.isDescending ? position < start : start < position
    }
    records = Array(rest.prefix(length))
    hasMore = rest.count > length
    revision = records.last.map { HistoryPosition(of: $0).revision } ?? start?.revision ?? "0_0"
  }
}
