import Foundation
import Postgres
import Subscriptions

extension SupportDesk {
  /// All that is known of a customer: the rows of all tables, without what identifies other customers.
  /// - Parameter id: a user's UUID or a device's id.
  /// - Throws: ``SupportRefusal``; errors of the database.
  public func exportCustomer(_ id: String) async throws -> CustomerExport {
    let customers = try await knownCustomers(id)
    var export = CustomerExport(id: customers[0].id, exportedAt: clock.now())
    export.logHashes = try await logHashes(of: customers[0].id).map(\.hash)
    for customer in customers {
      export.kinds.append(customer.customer.kindWord)
      export.bundleIDs = Set(export.bundleIDs + customer.bundleIDs).sorted()
      try await pool.withTransaction { connection in
        let customer = try await found(customer, connection)
        for table in CustomerTable.all {
          guard let rows = table.export?(customer) else { continue }
          let answers = try await connection.pipeline([
            "SELECT set_config('timezone', 'UTC', true)",
            """
            SELECT obj_description(to_regclass('public.' || \(table.name))) AS description,
              (SELECT coalesce(jsonb_agg(exported.row), '[]') FROM (\(rows)) AS exported) AS rows
            """,
          ])
          let text = try answers[1][0].decode("rows", as: JSONText.self).text
          try export.add(
            JSONDecoder().decode([JSONValue].self, from: Data(text.utf8)), to: table.name,
            description: answers[1][0].decode("description", as: String?.self) ?? "")
        }
      }
    }
    return export
  }
}

/// All that is known of a customer, as `receiptd export-customer` prints it.
public struct CustomerExport: Encodable, Sendable {
  /// The customer's id.
  let id: String
  /// `user`, `device` or both.
  var kinds: [String] = []
  /// The apps that know the customer.
  var bundleIDs: [String] = []
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

  init(id: String, exportedAt: Date) {
    self.id = id
    self.exportedAt = exportedAt
  }

  fileprivate mutating func add(_ rows: [JSONValue], to table: String, description: String) {
    guard !rows.isEmpty else { return }
    if let known = tables.firstIndex(where: { $0.table == table }) {
      tables[known].rows += rows
    } else {
      tables.append(Table(table: table, description: description, rows: rows))
    }
  }
}
