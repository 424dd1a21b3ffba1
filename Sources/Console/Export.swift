import Foundation
import JSON
import Support

/// All that is known of a customer, to read and to print: the export as a page.
struct ExportContent: Sendable {
  let id: String
  let kinds: String
  let apps: String
  let exported: Moment
  let tables: [Table]
  /// The file with all rows.
  let file: String
  let back: String

  /// The most rows of one table on the page.
  private static let mostRows = 100

  struct Table: Sendable {
    let name: String
    let description: String
    let number: Int
    let rows: [Row]
    /// How many rows are in the file alone.
    let hidden: Int?
  }

  struct Row: Sendable {
    let members: [Member]
  }

  struct Member: Sendable {
    let name: String
    let text: String
  }

  init(_ export: CustomerExport, file: String, back: String, from now: Date) {
    id = export.id
    kinds = export.kinds.joined(separator: ", ")
    apps = export.bundleIDs.joined(separator: ", ")
    exported = Moment(export.exportedAt, from: now)
    self.file = file
    self.back = back
    tables = export.tables.map { table in
      let rows = table.rows.prefix(Self.mostRows).map { Row(members: Self.members(of: $0)) }
      return Table(
        name: table.table, description: table.description, number: table.rows.count, rows: rows,
        hidden: table.rows.count > rows.count ? table.rows.count - rows.count : nil)
    }
  }

  /// The columns that have a value, in the order of their names.
  private static func members(of row: JSONValue) -> [Member] {
    guard case .object(let members) = row else { return [Member(name: "row", text: text(row))] }
    return members.sorted { $0.key < $1.key }.filter { $0.value != .null }.map {
      Member(name: $0.key.replacing("_", with: " "), text: text($0.value))
    }
  }

  /// The members of a text that is a JSON object, as signed claims are.
  private static func claims(_ text: String) -> String? {
    guard text.hasPrefix("{"),
      let value = try? JSONReader.read(JSONValue.self, from: Array(text.utf8), maximumDepth: 16)
    else { return nil }
    return Self.text(value)
  }

  private static func text(_ value: JSONValue) -> String {
    switch value {
    case .string(let text): claims(text) ?? text
    case .bool(let isTrue): isTrue ? "yes" : "no"
    case .integer(let number): "\(number)"
    case .number(let number): "\(number)"
    case .null: "none"
    case .array(let values): values.map(text).joined(separator: ", ")
    case .object(let members):
      members.sorted { $0.key < $1.key }.map { "\($0.key): \(text($0.value))" }.joined(separator: ", ")
    }
  }
}
