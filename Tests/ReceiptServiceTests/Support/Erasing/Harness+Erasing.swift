import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

extension Harness {
  /// Erases a customer by support.
  @discardableResult
  func erase(_ id: String, of bundleID: String? = nil, isForced: Bool = true) async throws -> ErasureReport {
    try await desk.eraseCustomer(
      id, bundleID: bundleID, by: #require(Self.makeAuthor("ada", "asked by letter")), isForced: isForced)
  }

  /// The tables with a row that has a text, in upper or lower case: in any column, and inside of base64url too.
  /// - Parameter owned: tables of the app itself, whose rows are not receiptd's to delete.
  func tables(with text: String, except owned: Set<String> = []) async throws -> [String] {
    let tables = try await pool.query(
      """
      SELECT relname::text FROM pg_class
      WHERE relnamespace IN ('public'::regnamespace, 'receiptd'::regnamespace) AND relkind IN ('r', 'p') ORDER BY 1
      """
    ).map { try $0.decode("relname", as: String.self) }
    // Base64 of a text has three forms, by its place in a group of three bytes. Their inner characters are the text's
    // own.
    let encoded = (text.utf8.count < 8 ? 0..<0 : 0..<3).map { shift in
      let bytes = Data(repeating: 0x20, count: shift) + Data(text.utf8)
      let characters = bytes.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
      return String(characters.dropFirst(shift == 0 ? 0 : shift + 1).prefix(text.utf8.count * 4 / 3 - 3))
    }
    var found: [String] = []
    for table in tables where !owned.contains(table) {
      let rows = try await pool.query(
        """
        SELECT 1 FROM \(unescaped: table) AS t
        WHERE strpos(lower(t::text), lower(\(text))) > 0
          OR EXISTS (SELECT FROM unnest(\(encoded)::text[]) AS code WHERE strpos(t::text, code) > 0) LIMIT 1
        """)
      if !rows.isEmpty { found.append(table) }
    }
    return found
  }

  /// Waits until sessions wait for locks in this database.
  /// - Parameter table: the table that they wait for; `nil` for any lock.
  func untilWaiting(_ sessions: Int, for table: String? = nil) async throws {
    while try await waitingSessions(for: table) < sessions { try await Task.sleep(for: .milliseconds(10)) }
  }

  /// The number of sessions that wait for locks in this database.
  func waitingSessions(for table: String? = nil) async throws -> Int {
    try await value(
      """
      SELECT count(DISTINCT l.pid) AS value FROM pg_locks l JOIN pg_stat_activity a USING (pid)
      WHERE NOT l.granted AND a.datname = current_database()
        AND (\(table)::text IS NULL OR l.relation = to_regclass(\(table)::text))
      """, as: Int.self)
  }

  /// A value of the one row of a query.
  func value<Value: PostgresDecodable>(_ query: Query, as type: Value.Type = Value.self) async throws -> Value
  {
    try #require(try await pool.query(query).first).decode("value", as: type)
  }
}
