import Customers
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
    // Rows are decoded after the transaction: meanwhile its session is idle, which PostgreSQL allows for a short time only.
    let tables = try await pool.withTransaction { connection in
      let customer = try await found(known, connection)
      var tables: [(name: String, description: Rows, rows: Rows)] = []
      for table in CustomerTable.all {
        guard let rows = table.export?(customer) else { continue }
        let answers = try await connection.pipeline(
          [
            "SELECT set_config('timezone', 'UTC', true)",
            "SELECT obj_description(to_regclass('public.' || \(table.name))) AS description",
            // No array of all rows: PostgreSQL limits its size.
            "SELECT exported.row FROM (\(rows)) AS exported LIMIT \(CustomerExport.maximumRows + 1)",
          ], timeout: ErasedCustomer.timeout)
        tables.append((table.name, answers[1], answers[2]))
      }
      return tables
    }
    let decoder = JSONDecoder()
    for table in tables {
      let rows = try table.rows.prefix(CustomerExport.maximumRows).map { row in
        try decoder.decode(JSONValue.self, from: Data(row.decode("row", as: JSONText.self).text.utf8))
      }
      try export.add(
        rows, to: table.name, hasMore: table.rows.count > CustomerExport.maximumRows,
        description: table.description[0].decode("description", as: String?.self) ?? "")
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

extension SupportDesk {
  /// The hashes of a customer in the log's field `customer`: of the id as it is, which devices have, and of a user's UUID in
  /// lower case.
  /// - Throws: errors of the database.
  package func logHashes(of id: String) async throws -> [(id: String, hash: String)] {
    let key = LogKey()
    try await key.load(from: pool)
    let user = UUID(uuidString: id).map { $0.uuidString.lowercased() }
    return Set([id, user ?? id]).sorted().compactMap { id in key.hash(of: id).map { (id, $0) } }
  }
}
