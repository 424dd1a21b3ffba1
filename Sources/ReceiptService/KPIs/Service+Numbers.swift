import Configuration
import HTTP
import HTTPTypes
import Postgres
import Work

extension Service {
  /// The most days of one request.
  private static let maximumDays = 400
  /// The most days between the current day and a later one of a request: ten years.
  private static let maximumDaysAhead = 3_653

  /// `GET /support/v1/numbers/{view}`: the rows of a view, as ``NumbersView`` names them, in JSON or CSV.
  func numbers(_ request: Request) async throws -> Response {
    let name: String = try request.parameters.require("view")
    guard let view = NumbersView(rawValue: name) else {
      let known = NumbersView.allCases.map(\.rawValue).joined(separator: ", ")
      throw Problem.notFound("There is no view '\(name)'; there are \(known).")
    }
    let today = Day(of: clock.now())
    let last = try Self.day("to", of: request, on: today) ?? today
    let first = try Self.day("from", of: request, on: today) ?? last.advanced(by: -31)
    guard first <= last, last <= first.advanced(by: Self.maximumDays) else {
      throw Problem.invalidRequest(
        "'from' must not be after 'to', nor more than \(Self.maximumDays) days before it.")
    }
    let bundleID = request.query["bundleID"]
    if let bundleID, support.catalog[bundleID] == nil,
      try await !pool.query(NumbersView.isKnown(bundleID))[0].decode("is_known")
    {
      _ = try support.app(named: bundleID)
    }
    switch NumbersFormat(accept: request.headers[.accept]) {
    case .json:
      let rows = try await pool.query(view.select(from: first, through: last, bundleID: bundleID))[0]
        .decode("rows", as: String.self)
      return .text(.ok, #"{"view":"\#(name)","rows":\#(rows)}"#, contentType: "application/json")
    case .csv:
      var lines = CSVText()
      for row in try await pool.query(view.selectCells(from: first, through: last, bundleID: bundleID)) {
        lines.append(try row.decode("cells", as: [String?].self))
      }
      return .text(.ok, lines.text, contentType: "text/csv; charset=utf-8")
    }
  }

  /// The day of a parameter. PostgreSQL has no year 0, so a day before the App Store's first is refused.
  private static func day(_ name: String, of request: Request, on today: Day) throws(Problem) -> Day? {
    guard let text = request.query[name] else { return nil }
    guard let day = Day(text) else { throw .invalidRequest("'\(name)' must be a day such as 2026-11-20.") }
    let latest = today.advanced(by: maximumDaysAhead)
    guard day.description >= DayRows.firstDay, day <= latest else {
      throw .invalidRequest("'\(name)' must be a day from \(DayRows.firstDay) to \(latest).")
    }
    return day
  }
}
