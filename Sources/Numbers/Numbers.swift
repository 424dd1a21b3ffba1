import Actions
import Configuration
import HTTP
import HTTPTypes
import Postgres
import Text
import Work

/// `GET /support/v1/numbers/{view}`: the rows of a view, as ``NumbersView`` names them, in JSON or CSV.
package struct NumbersRoute: Sendable {
  let catalog: AppCatalog
  let pool: PostgresPool
  let clock: ServiceClock

  init(catalog: AppCatalog, pool: PostgresPool, clock: ServiceClock) {
    self.catalog = catalog
    self.pool = pool
    self.clock = clock
  }

  /// The most days of one request.
  private static let maximumDays = 400
  /// The most days between the current day and a later one of a request: ten years.
  private static let maximumDaysAhead = 3_653

  package func respond(to request: Request) async throws -> Response {
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
    if let bundleID, catalog[bundleID] == nil,
      try await !pool.query(NumbersView.isKnown(bundleID))[0].decode("is_known")
    {
      _ = try catalog.app(named: bundleID)
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

/// The form of a response with figures.
enum NumbersFormat: Sendable, Hashable {
  case json, csv

  /// The form that a client prefers: CSV if it accepts `text/csv` more than JSON, or names it first.
  /// - Parameter accept: the field `Accept` (RFC 9110 §12.5.1). An element with a malformed weight is ignored.
  init(accept: String?) {
    var best: (weight: Double, format: NumbersFormat) = (0, .json)
    for element in (accept ?? "").split(separator: ",") {
      let parts = element.split(separator: ";").map { Self.trimmed($0).lowercased() }
      let format: NumbersFormat
      switch parts.first {
      case "text/csv", "text/*": format = .csv
      case "application/json", "application/*", "*/*": format = .json
      default: continue
      }
      let parameter = parts.dropFirst().first { $0.hasPrefix("q=") }
      guard let weight = Self.weight(parameter?.dropFirst(2) ?? "1") else { continue }
      if weight > best.weight { best = (weight, format) }
    }
    self = best.format
  }

  /// A weight of RFC 9110 §12.4.2: 0 to 1 with at most three decimals; `nil` for any other text.
  private static func weight(_ text: Substring) -> Double? {
    let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    guard let whole = parts.first, whole == "0" || whole == "1" else { return nil }
    let decimals = parts.dropFirst().first ?? ""
    let digits = UInt8(ascii: "0")...UInt8(ascii: whole == "0" ? "9" : "0")
    guard decimals.utf8.count <= 3, decimals.utf8.allSatisfy({ digits.contains($0) }) else { return nil }
    return Double("\(whole).\(decimals)0")
  }

  /// The text without spaces and tabs at both ends.
  private static func trimmed(_ text: Substring) -> Substring {
    func isBlank(_ character: Character) -> Bool { character == " " || character == "\t" }
    var rest = text.drop(while: isBlank)
    while let last = rest.last, isBlank(last) { rest.removeLast() }
    return rest
  }
}

/// Text with comma-separated values (RFC 4180).
///
/// A spreadsheet takes a cell that begins with `=`, `+`, `-`, `@`, a tab or a CR as a formula, and clients choose some
/// texts. Such a cell gets a leading `'`, unless it is a number.
struct CSVText: Sendable {
  private(set) var text = ""

  /// Appends a line. `nil` is an empty cell.
  mutating func append(_ cells: [String?]) {
    text += cells.map { $0.map { Self.quoted(Self.plain($0)) } ?? "" }.joined(separator: ",")
    text += "\r\n"
  }

  private static func plain(_ cell: String) -> String {
    let formulaStarts: Set<UInt8> = [
      UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "@"), UInt8(ascii: "\t"),
      UInt8(ascii: "\r"),
    ]
    guard let first = cell.utf8.first, formulaStarts.contains(first), !isNegativeNumber(cell) else {
      return cell
    }
    return "'" + cell
  }

  /// Whether a cell is a number with a minus sign, as PostgreSQL writes it, such as `-7.99`.
  private static func isNegativeNumber(_ cell: String) -> Bool {
    guard cell.utf8.first == UInt8(ascii: "-") else { return false }
    let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
    let parts = cell.utf8.dropFirst().split(
      separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
    return parts.allSatisfy { part in !part.isEmpty && part.allSatisfy { digits.contains($0) } }
  }

  private static func quoted(_ cell: String) -> String {
    let special: Set<UInt8> = [
      UInt8(ascii: ","), UInt8(ascii: "\""), UInt8(ascii: "\r"), UInt8(ascii: "\n"),
    ]
    guard cell.utf8.contains(where: special.contains) else { return cell }
    return "\"" + cell.replacing("\"", with: "\"\"") + "\""
  }
}
