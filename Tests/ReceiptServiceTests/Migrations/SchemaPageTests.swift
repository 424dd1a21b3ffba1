import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// `docs/schema.md` against a migrated database. Where they differ, run `scripts/harness/schema` and commit the page.
@Suite struct SchemaPageTests {
  /// A table or view with its comment and its columns.
  private struct Section: Equatable {
    var comment = ""
    /// The type, NULL and comment of each column by its name, as in a row of the page.
    var columns: [String: String] = [:]
  }

  private static let repair = "run scripts/harness/schema and commit docs/schema.md"

  /// The sections of the page by table.
  private static func page() throws -> [String: Section] {
    let file = URL(filePath: Harness.migrations).deletingLastPathComponent().appending(path: "docs/schema.md")
    var sections: [String: Section] = [:]
    var name: String?
    for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
      if line.hasPrefix("#") {
        name = line.hasPrefix("### ") ? String(line.dropFirst(4)) : nil
        if let name {
          #expect(sections[name] == nil, "docs/schema.md has \(name) twice")
          sections[name] = Section()
        }
      } else if let name {
        if let row = line.wholeMatch(of: /\| `([^`]+)` (\| .* \|)/) {
          sections[name]?.columns[String(row.output.1)] = String(row.output.2)
        } else if !line.hasPrefix("|") {
          sections[name]?.comment += line
        }
      }
    }
    return sections
  }

  /// The tables and views of the database, without views that have the former name of a table.
  private static func database(_ pool: PostgresPool) async throws -> [String: Section] {
    let rows = try await pool.query(
      """
      SELECT CASE WHEN n.nspname = 'public' THEN '' ELSE n.nspname || '.' END || c.relname AS relation, c.relkind IN ('v', 'm') AS is_view,
        obj_description(c.oid, 'pg_class') AS comment, a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type,
        a.attnotnull AS is_required, col_description(c.oid, a.attnum) AS meaning
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      WHERE n.nspname IN ('public', 'receiptd') AND c.relkind IN ('r', 'p', 'v', 'm')
        AND NOT (n.nspname = 'public' AND c.relkind = 'v' AND EXISTS (
          SELECT FROM pg_class t WHERE t.relname = c.relname AND t.relnamespace = 'receiptd'::regnamespace))
      """)
    var sections: [String: Section] = [:]
    for row in rows {
      let relation = try row.decode("relation", as: String.self)
      let isView = try row.decode("is_view", as: Bool.self)
      let comment = try #require(
        try row.decode("comment", as: String?.self), "\(relation) has no comment")
      let meaning = try row.decode("meaning", as: String?.self)
      let isRequired = try row.decode("is_required", as: Bool.self)
      let cells = [
        try row.decode("type", as: String.self), isView ? "" : isRequired ? "no" : "yes", cell(meaning ?? ""),
      ]
      sections[relation, default: Section()].comment = (isView ? "View. " : "") + cell(comment)
      sections[relation]?.columns[try row.decode("name", as: String.self)] =
        "| \(cells.joined(separator: " | ")) |"
    }
    return sections
  }

  /// Text of a cell: characters that Markdown would read as its own are escaped, but for those of code.
  private static func cell(_ text: String) -> String {
    text.replacing(/[\\<|*]/) { "\\\($0.output)" }.replacing(/\s*\n\s*/, with: " ")
  }

  @Test func `docs/schema.md has each table, view and column of the migrated database with its comment`()
    async throws
  {
    let page = try Self.page()
    try await withTestDatabase(migrationsFolder: Harness.migrations) { database in
      try await database.withPool { pool in
        let sections = try await Self.database(pool)
        #expect(sections.count > 60)
        #expect(sections.values.map(\.columns.count).reduce(0, +) > 700)
        let differing = Set(page.keys).symmetricDifference(sections.keys)
        #expect(differing.sorted() == [], "missing, or unknown to the database; \(Self.repair)")
        for (relation, section) in sections {
          guard let shown = page[relation] else { continue }
          #expect(shown.comment == section.comment, "\(relation); \(Self.repair)")
          let names = Set(shown.columns.keys).union(section.columns.keys)
          for name in names.sorted() {
            #expect(shown.columns[name] == section.columns[name], "\(relation).\(name); \(Self.repair)")
          }
        }
      }
    }
  }
}
