import Foundation
import JSON
import Postgres
import Subscriptions
import Work

extension SupportDesk {
  /// All that is known of a customer: the rows of all tables, without what identifies other customers.
  /// - Parameters:
  ///   - id: a user's UUID or a device's id.
  ///   - bundleID: the app; needed if the id is a customer of several apps.
  /// - Throws: ``SupportRefusal``; errors of the database.
  package func exportCustomer(_ id: String, bundleID: String? = nil) async throws -> CustomerExport {
    let known = try await knownCustomer(id, of: bundleID)
    var export = CustomerExport(
      id: known.id, kinds: [known.customer.kindWord], bundleIDs: known.bundleIDs, exportedAt: clock.now())
    export.logHashes = try await logHashes(of: known.id).map(\.hash)
    let decoder = JSONDecoder()
    try await pool.withTransaction { connection in
      let customer = try await found(known, connection)
      for table in CustomerTable.all {
        guard let rows = table.export?(customer) else { continue }
        let answers = try await connection.pipeline(
          [
            "SELECT set_config('timezone', 'UTC', true)",
            "SELECT obj_description(to_regclass('public.' || \(table.name))) AS description",
            // No array of all rows: PostgreSQL limits its size.
            "SELECT exported.row FROM (\(rows)) AS exported LIMIT \(CustomerExport.maximumRows + 1)",
          ], timeout: ErasedCustomer.timeout)
        let texts = try answers[2].prefix(CustomerExport.maximumRows).map { row in
          try row.decode("row", as: JSONText.self).text
        }
        try export.add(
          texts.map { try decoder.decode(JSONValue.self, from: Data($0.utf8)) }, to: table.name,
          hasMore: answers[2].count > CustomerExport.maximumRows,
          description: answers[1][0].decode("description", as: String?.self) ?? "")
      }
    }
    return export
  }
}

/// All that is known of a customer, as `receiptd export-customer` prints it.
package struct CustomerExport: Encodable, Sendable {
  /// The customer's id.
  let id: String
  /// `user` or `device`.
  let kinds: [String]
  /// The apps whose rows these are.
  let bundleIDs: [String]
  /// The server's clock.
  let exportedAt: Date
  /// The customer in the log's field `customer`.
  var logHashes: [String] = []
  /// The tables with rows of the customer.
  private(set) var tables: [Table] = []

  /// The most rows of one table. A flood of requests alone reaches it: the limits of 20261120_limits.sql keep the events of an app
  /// below it.
  static let maximumRows = 200_000

  /// A table with its rows, under the names of the columns.
  struct Table: Encodable, Sendable {
    var table: String
    /// What the table is for.
    var description: String
    var rows: [JSONValue]
    /// Whether there are more rows than ``CustomerExport/maximumRows``.
    var hasMore: Bool
  }

  init(id: String, kinds: [String], bundleIDs: [String], exportedAt: Date) {
    self.id = id
    self.kinds = kinds
    self.bundleIDs = bundleIDs
    self.exportedAt = exportedAt
  }

  fileprivate mutating func add(_ rows: [JSONValue], to table: String, hasMore: Bool, description: String) {
    guard !rows.isEmpty else { return }
    tables.append(Table(table: table, description: description, rows: rows, hasMore: hasMore))
  }
}
