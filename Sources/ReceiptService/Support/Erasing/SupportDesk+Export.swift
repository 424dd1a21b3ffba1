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
    try await pool.withTransaction { connection in
      let customer = try await found(known, connection)
      for table in CustomerTable.all {
        guard let rows = table.export?(customer) else { continue }
        let answers = try await connection.pipeline(
          [
            "SELECT set_config('timezone', 'UTC', true)",
            """
            SELECT obj_description(to_regclass('public.' || \(table.name))) AS description,
              (SELECT coalesce(jsonb_agg(exported.row), '[]') FROM (\(rows)) AS exported) AS rows
            """,
          ], timeout: ErasedCustomer.timeout)
        let text = try answers[1][0].decode("rows", as: JSONText.self).text
        try export.add(
          JSONDecoder().decode([JSONValue].self, from: Data(text.utf8)), to: table.name,
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

  /// A table with its rows, under the names of the columns.
  struct Table: Encodable, Sendable {
    var table: String
    /// What the table is for.
    var description: String
    var rows: [JSONValue]
  }

  init(id: String, kinds: [String], bundleIDs: [String], exportedAt: Date) {
    self.id = id
    self.kinds = kinds
    self.bundleIDs = bundleIDs
    self.exportedAt = exportedAt
  }

  fileprivate mutating func add(_ rows: [JSONValue], to table: String, description: String) {
    guard !rows.isEmpty else { return }
    tables.append(Table(table: table, description: description, rows: rows))
  }
}
