import FoundationEssentials
import Postgres

/// A table that grows for ever, and can be divided into months and forgotten after some: what is done with it stands in
/// functions of `20260205_divide_into_months.sql`; the dividing, as it is now, in
/// `20260207_divide_under_own_views_only.sql`.
public enum MonthlyTable: String, CaseIterable, Sendable {
  /// By the instant at which the App Store signed.
  case notifications
  /// By the instant of the purchase.
  case transactions
}

/// Where a table stands.
struct MonthsState: Sendable {
  var table: String
  var isDivided: Bool
  var months: Int
  /// The end of the last month; `nil` where it is not divided.
  var madeUntil: Date?
  /// Rows that belong to no month, up to 10,000.
  var rowsOutside: Int
}

/// What came of one step of forgetting.
struct Forgotten: Sendable {
  /// The months that were dropped, by the names of their tables.
  var dropped: String?
  var deleted: Int
  /// Whether there is nothing more to do now.
  var isDone: Bool
}

/// Calls of the functions.
enum MonthRows {
  /// Makes the months ahead; a row for each, its name.
  static let make: Query = "SELECT receiptd_make_months()"

  static let look: Query = """
    SELECT relation, is_divided, months, made_until, outside FROM receiptd_look_at_months()
    """

  static func decode(_ row: Row) throws -> MonthsState {
    MonthsState(
      table: try row.decode(0), isDivided: try row.decode(1), months: try row.decode(2),
      madeUntil: try row.decode(3), rowsOutside: try row.decode(4))
  }

  /// Forgets a bounded piece of what is older than so many whole months, and of notifications of apps that are not
  /// configured what is older than 30 days, also where `months` is nil.
  static func forget(_ table: MonthlyTable, months: Int?) -> Query {
    // The functions' own names, so that a statement that is prepared is one of two.
    switch table {
    case .notifications:
      "SELECT dropped, deleted, is_done FROM receiptd_forget_notifications(\(months)::bigint::integer)"
    case .transactions:
      "SELECT dropped, deleted, is_done FROM receiptd_forget_transactions(\(months)::bigint::integer)"
    }
  }

  static func decodeForgotten(_ row: Row) throws -> Forgotten {
    Forgotten(dropped: try row.decode(0), deleted: try row.decode(1), isDone: try row.decode(2))
  }

  // MARK: Dividing, step by step

  /// Whether nobody else divides the table; from now on nobody else can, until the turn or the session ends.
  static func takeTurn(_ table: MonthlyTable) -> Query {
    AdvisoryLock.tryAcquireForSession(.division, table.rawValue)
  }

  static func endTurn(_ table: MonthlyTable) -> Query {
    AdvisoryLock.releaseFromSession(.division, table.rawValue)
  }

  /// Gives the instant that the rows that are there lie before; NULL where it is divided already.
  static func prepare(_ table: MonthlyTable) -> Query {
    "SELECT receiptd_prepare_months(\(table.rawValue)::text::name)"
  }

  /// Reads every row, and keeps nobody from writing.
  static func validate(_ table: MonthlyTable) -> Query {
    Query(unescaped: "ALTER TABLE \(table.rawValue) VALIDATE CONSTRAINT receiptd_months_bound")
  }

  static func divide(_ table: MonthlyTable) -> Query {
    "SELECT receiptd_divide_into_months(\(table.rawValue)::text::name)"
  }

  /// Takes back what `prepare` did.
  static func giveUp(_ table: MonthlyTable) -> [Query] {
    [
      "SET LOCAL lock_timeout = '500ms'",
      Query(unescaped: "ALTER TABLE \(table.rawValue) DROP CONSTRAINT IF EXISTS receiptd_months_bound"),
    ]
  }

  /// PostgreSQL gathers the statistics of a divided table's parts by itself, of the whole only when it is told to.
  static func analyze(_ table: MonthlyTable) -> Query { Query(unescaped: "ANALYZE \(table.rawValue)") }
}
