import FoundationEssentials
import Postgres

extension Doctor {
  /// Months are made three ahead; when the last of them has come, nobody has made any for two.
  private static let monthsAhead = "1 month"

  /// Whether tables that are divided into months have those of the next weeks.
  /// - Returns: `nil` where none is divided.
  func months(_ pool: PostgresPool) async throws -> Finding? {
    let states = try await pool.query(MonthRows.look).map(MonthRows.decode).filter(\.isDivided)
    guard !states.isEmpty else { return nil }
    let limit = try await pool.query(
      Query(unescaped: "SELECT now() + interval '\(Self.monthsAhead)'"))[0].decode(0, as: Date.self)
    let words = states.map { state in
      let outside =
        state.rowsOutside == 0
        ? "" : ", and \(state.rowsOutside)\(state.rowsOutside == 10_000 ? " or more" : "") rows of no month"
      return "\(state.table) \(state.months), until \(state.madeUntil?.inWords ?? "never")\(outside)"
    }
    if states.contains(where: { ($0.madeUntil ?? .distantPast) < limit }) {
      return .fail(
        "months", "not enough are made: " + words.joined(separator: "; "),
        "see why receiptd serve logs that months were put off, or run SELECT receiptd_make_months() as the owner"
      )
    }
    return .ok("months", words.joined(separator: "; "))
  }
}
