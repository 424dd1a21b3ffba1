import Foundation
import Postgres

/// A table whose rows wait for work, and the only statements that claim rows, give them back and put them off.
///
/// | state | the row is |
/// |---|---|
/// | waiting | open, and due now or later |
/// | under way | open and leased: no server claims it before the lease ends |
/// | ended | not open: done, or given up. The kind's own columns say how |
///
/// | transition | from | to | statement |
/// |---|---|---|---|
/// | claim | waiting, due | under way | ``claim(_:where:or:inTurns:limit:keeping:setting:returning:)`` |
/// | put off | under way | waiting | ``retry(_:of:at:because:isAttempt:setting:)`` |
/// | end | under way | ended | the kind's own |
/// | give back, when the server stops | under way | waiting, due | ``giveBack(_:of:)`` |
/// | the lease ends, after a crash | under way | waiting, due | none |
/// | queue again | any | waiting, due | ``requeue(_:at:setting:)``, or the kind's own `INSERT … ON CONFLICT` |
///
/// A table has its own columns, unique keys and rights, which the schema checks; this type names those that all have. A
/// row that is queued again while it is under way stays due after the attempt.
package struct WorkTable: Sendable {
  /// Where a table keeps the lease of a row.
  package enum Lease: Sendable {
    /// The due time moves to the end of the lease. That time tells the holder's lease from a later one.
    case inDueTime
    /// Columns of its own: the holder of the lease, and its end.
    case columns(holder: StaticString, end: StaticString)
  }

  let name: StaticString
  let key: StaticString
  let due: StaticString
  let isOpen: StaticString
  let lease: Lease
  let attempts: StaticString?
  let lastError: StaticString?
  let deadline: StaticString?

  /// - Parameters:
  ///   - isOpen: the condition of an open row.
  ///   - attempts: the column that counts attempts without an end; `nil` for none.
  ///   - lastError: the column that says why the last attempt had no end; `nil` for none.
  ///   - deadline: the column with the latest time of an attempt; `nil` for none.
  package init(
    _ name: StaticString, key: StaticString, due: StaticString = "next_attempt_at", isOpen: StaticString,
    lease: Lease = .inDueTime, attempts: StaticString? = "attempts", lastError: StaticString? = "last_error",
    deadline: StaticString? = nil
  ) {
    self.name = name
    self.key = key
    self.due = due
    self.isOpen = isOpen
    self.lease = lease
    self.attempts = attempts
    self.lastError = lastError
    self.deadline = deadline
  }

  // MARK: Claim

  /// The rows that are due, locked until the transaction ends; rows that another transaction has locked are left out.
  /// The earliest come first.
  ///
  /// - Parameters:
  ///   - condition: which of the rows.
  ///   - early: rows that are due before their time.
  ///   - turns: a relation with the columns `turn_key` and `turn`: only its rows are due, in the order of `turn`.
  ///   - columns: what to select.
  package func due(
    at instant: Date, where condition: Query = "true", or early: Query = "false", inTurns turns: Query? = nil,
    limit: Query, selecting columns: Query
  ) -> Query {
    let isFree: Query =
      switch lease {
      case .inDueTime: ""
      case .columns(_, let end):
        " AND (\(unescaped: end) IS NULL OR \(unescaped: end) <= \(instant))"
      }
    let source: Query = turns.map { " JOIN \($0) ON turn_key = \(unescaped: key)" } ?? ""
    let turn: Query = turns == nil ? "" : "turn, "
    return """
      SELECT \(columns) FROM \(unescaped: name)\(source)
      WHERE \(unescaped: isOpen) AND (\(unescaped: due) <= \(instant) OR \(early))\(isFree) AND \(condition)
      ORDER BY \(turn)\(unescaped: due) LIMIT \(limit) FOR UPDATE OF \(unescaped: name) SKIP LOCKED
      """
  }

  /// Leases the rows that are due, in one statement: no other server claims them before the lease ends.
  ///
  /// It reads little more than the rows that it takes, however many are due at one instant. So there is no further
  /// order, which would sort all of them; and the rows are updated by an array of keys, because the planner knows no
  /// number of rows for a limit that is a parameter, and would prefer to join the whole table.
  ///
  /// - Parameters:
  ///   - keeping: columns of the rows before the claim, for `columns`, which reads them from `work` by `work_key`.
  ///   - setting: further assignments.
  ///   - columns: what to return.
  package func claim(
    _ lease: WorkLease, where condition: Query = "true", or early: Query = "false",
    inTurns turns: Query? = nil, limit: Query, keeping: Query = "", setting: Query = "",
    returning columns: Query
  ) -> Query {
    let work = due(
      at: lease.start, where: condition, or: early, inTurns: turns, limit: limit,
      selecting: "\(unescaped: key) AS work_key\(keeping)")
    return """
      WITH work AS MATERIALIZED (\(work))
      UPDATE \(unescaped: name) SET \(assignments(of: lease))\(setting)
      WHERE \(unescaped: key) = ANY(ARRAY(SELECT work_key FROM work)) RETURNING \(columns)
      """
  }

  /// Leases one row; it waits for a lock of the row.
  /// - Parameter early: when the row is due before its time.
  package func claim(
    _ row: some PostgresEncodable, _ lease: WorkLease, or early: Query = "false", returning columns: Query
  ) -> Query {
    """
    UPDATE \(unescaped: name) SET \(assignments(of: lease))
    WHERE \(unescaped: key) = \(row) AND \(unescaped: isOpen)
      AND (\(unescaped: due) IS NULL OR \(unescaped: due) <= \(lease.start) OR \(early))
    RETURNING \(columns)
    """
  }

  private func assignments(of lease: WorkLease) -> Query {
    switch self.lease {
    case .inDueTime: "\(unescaped: due) = \(lease.end)"
    case .columns(let holder, let end):
      "\(unescaped: holder) = \(lease.holder), \(unescaped: end) = \(lease.end)"
    }
  }

  // MARK: Settle

  /// The condition that a row is still leased as it was.
  private func isHeld(_ lease: WorkLease) -> Query {
    switch self.lease {
    case .inDueTime: "\(unescaped: due) = \(lease.end)"
    case .columns(let holder, _): "\(unescaped: holder) = \(lease.holder)"
    }
  }

  /// Puts a row off. One that was queued again or claimed by another server since the claim keeps its time.
  ///
  /// - Parameters:
  ///   - lease: `nil` if the transaction has locked the row.
  ///   - next: when it is due, if not at its deadline before; `nil` for never.
  ///   - reason: why. Without one, a row on which no attempt was made keeps the former reason.
  ///   - isAttempt: whether to count an attempt.
  ///   - setting: further assignments.
  package func retry(
    _ row: some PostgresEncodable, of lease: WorkLease?, at next: Date?, because reason: String?,
    isAttempt: Bool, setting: Query = ""
  ) -> Query {
    var time: Query = "\(next)::timestamptz"
    if let deadline { time = "least(\(time), \(unescaped: deadline))" }
    if let lease { time = "CASE WHEN \(isHeld(lease)) THEN \(time) ELSE \(unescaped: due) END" }
    var assignments: Query = "\(unescaped: due) = \(time)"
    if isAttempt, let attempts {
      assignments = "\(assignments), \(unescaped: attempts) = \(unescaped: attempts) + 1"
    }
    if let lastError, isAttempt || reason != nil {
      assignments = "\(assignments), \(unescaped: lastError) = \(reason)::text"
    }
    return """
      UPDATE \(unescaped: name) SET \(assignments)\(setting)
      WHERE \(unescaped: key) = \(row) AND \(unescaped: isOpen)
      """
  }

  /// Makes a claimed row due again on which no work was done. No row if it is not leased as it was.
  package func giveBack(_ row: some PostgresEncodable, of lease: WorkLease) -> Query {
    let assignments: Query =
      switch self.lease {
      case .inDueTime: "\(unescaped: due) = \(lease.start)"
      case .columns(let holder, let end): "\(unescaped: holder) = NULL, \(unescaped: end) = NULL"
      }
    return """
      UPDATE \(unescaped: name) SET \(assignments)
      WHERE \(unescaped: key) = \(row) AND \(unescaped: isOpen) AND \(isHeld(lease))
      """
  }

  /// Makes a row due now, as if it were new, in whatever state it is.
  /// - Parameter setting: assignments that open it again.
  package func requeue(_ row: some PostgresEncodable, at instant: Date, setting: Query = "") -> Query {
    var assignments: Query = "\(unescaped: due) = \(instant)"
    if let attempts { assignments = "\(assignments), \(unescaped: attempts) = 0" }
    if let lastError { assignments = "\(assignments), \(unescaped: lastError) = NULL" }
    return "UPDATE \(unescaped: name) SET \(assignments)\(setting) WHERE \(unescaped: key) = \(row)"
  }
}

extension Int64 {
  /// The number that a key of a queue's table spells; `nil` for another spelling of it, such as `011`.
  package init?(key: String) {
    guard let number = Int64(key), String(number) == key else { return nil }
    self = number
  }
}

/// A queue whose rows support queues again: those that wait, and those that were given up and can still succeed.
package struct RequeuableQueue: Sendable {
  /// The name of the table, as in `support_work.queue`.
  package let name: String
  /// The rows that can be queued again, in words.
  package let rule: String
  /// Makes a row due now; `nil` for a text that is no key of the table.
  private let statement: @Sendable (_ key: String, _ instant: Date) -> Query?

  /// - Parameters:
  ///   - rule: completes "only …".
  ///   - statement: returns the columns `bundle_id` and `original_transaction_id`, and no row where the rule does not hold.
  package init(
    _ name: String, only rule: String,
    statement: @escaping @Sendable (_ key: String, _ instant: Date) -> Query?
  ) {
    self.name = name
    self.rule = rule
    self.statement = statement
  }

  /// The statement that makes a row due now; `nil` for a text that is no key of the table.
  package func requeue(_ key: String, at instant: Date) -> Query? { statement(key, instant) }
}

/// The time for which a server holds claimed rows.
package struct WorkLease: Sendable, Hashable {
  /// The claim.
  package let holder: UUID
  /// When the rows were claimed.
  package let start: Date
  /// When another server may claim them.
  package let end: Date

  /// - Parameter time: longer than the longest attempt, in seconds.
  package init(by holder: UUID = UUID(), at start: Date, for time: TimeInterval) {
    self.holder = holder
    self.start = start
    end = start + time
  }
}
