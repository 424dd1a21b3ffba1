import Configuration
import Customers
import Foundation
import Postgres
import Subscriptions

/// The modes in which clients may write the premium columns of the app's own tables, by the configuration.
///
/// Triggers read the modes from the table `client_write_modes`.
package struct ClientWriteModes: Sendable {
  let catalog: AppCatalog
  /// The apps with a key for the App Store Server API, whose claims can be verified.
  let appsWithKey: Set<String>

  package init(catalog: AppCatalog, appsWithKey: Set<String>) {
    self.catalog = catalog
    self.appsWithKey = appsWithKey
  }

  /// A row of `client_write_modes`.
  package struct StoredMode: Sendable {
    package var table: String
    package var existedBefore: Bool
    /// Whether the table existed before receiptd, with or without premium columns.
    package var hadClients: Bool
    /// Whether an app writes to it, or wrote.
    package var hasApps: Bool
    /// `nil` before a server has started.
    package var mode: ClientWrites?
    package var countedSince: Date

    init(_ row: Row) throws {
      table = try row.decode("table_name")
      existedBefore = try row.decode("existed_before")
      hadClients = try row.decode("had_clients")
      hasApps = try row.decode("has_apps")
      mode = try row.decode("mode", as: String?.self).flatMap(ClientWrites.init)
      countedSince = try row.decode("counted_since")
    }
  }

  /// The mode of a table.
  ///
  /// A table has one mode, and several apps may write to it: the least strict one, because a stricter one would break
  /// the old builds of another app. Without a setting, a new table is closed. One with premium values from before
  /// receiptd is observed if the App Store can verify what they claim, else open. One that had no premium columns is
  /// observed: old builds may have written them all the same, and ignore an error.
  /// - Returns: `nil` for a table to which no configured app writes. The mode that is in force stays then: an app that
  ///   is left out of the configuration by mistake opens nothing to clients.
  package func mode(of table: ProfileTable, _ stored: StoredMode) -> ClientWrites? {
    let modes = apps(writingTo: table).map { app in app.clientWrites ?? usualMode(of: table, app, stored) }
    return modes.min { $0.strictness < $1.strictness }
  }

  private func usualMode(of table: ProfileTable, _ app: App, _ stored: StoredMode) -> ClientWrites {
    guard stored.existedBefore else { return stored.hadClients ? .observe : .refuse }
    return table.claimsNameTransactions && appsWithKey.contains(app.bundleID) ? .observe : .accept
  }

  /// The apps that write to a table.
  package func apps(writingTo table: ProfileTable) -> [App] {
    catalog.apps.filter { $0.customer == .user && $0.writeTo.contains(table.destination) }
  }

  /// The apps of the configuration that write to none of these tables. An app that has left the configuration may have
  /// written to any.
  func bundleIDs(notWritingTo tables: [ProfileTable]) -> [String] {
    let writers = Set(tables.flatMap { apps(writingTo: $0) }.map(\.bundleID))
    return catalog.apps.map(\.bundleID).filter { !writers.contains($0) }
  }

  /// The `bookmark_limit` of a user without premium.
  private func freeBookmarkLimit(in table: ProfileTable) -> Int {
    apps(writingTo: table).map(\.bookmarkLimits.free).max() ?? BookmarkLimits().free
  }

  /// The roles that write premium columns as the server does, by the configuration.
  package func writers(to table: ProfileTable) -> [String] {
    Set(apps(writingTo: table).flatMap(\.premiumWriters)).sorted()
  }

  /// Reads the rows of all tables.
  package static func read(_ pool: PostgresPool) async throws -> [StoredMode] {
    try await pool.query(
      """
      SELECT table_name, existed_before, had_clients, bundle_ids || former_bundle_ids <> '{}' AS has_apps, mode, counted_since
      FROM client_write_modes ORDER BY table_name
      """
    ).map(StoredMode.init)
  }

  /// Writes the modes that differ. The server's own role is a writer too, whichever it is. A table to which no
  /// configured app writes stays as it is: another server may know the app.
  package func write(to pool: PostgresPool) async throws {
    for stored in try await Self.read(pool) {
      guard let table = ProfileTable.all.first(where: { $0.destination.rawValue == stored.table }) else {
        continue
      }
      guard let mode = mode(of: table, stored) else { continue }
      let limit = freeBookmarkLimit(in: table)
      let bundleIDs = apps(writingTo: table).map(\.bundleID).sorted()
      _ = try await pool.query(
        """
        UPDATE client_write_modes
        SET mode = \(mode.rawValue), free_bookmark_limit = \(limit), bundle_ids = \(bundleIDs), writers = trusted.roles,
          former_bundle_ids = ARRAY(
            SELECT unnest(bundle_ids || former_bundle_ids) EXCEPT SELECT unnest(\(bundleIDs)::text[]) ORDER BY 1)
        FROM (SELECT ARRAY(
          SELECT unnest(\(writers(to: table))::text[]) UNION SELECT current_user ORDER BY 1) AS roles) AS trusted
        WHERE table_name = \(stored.table)
          AND (mode, free_bookmark_limit::bigint, bundle_ids, writers)
            IS DISTINCT FROM (\(mode.rawValue)::text, \(limit)::bigint, \(bundleIDs)::text[], trusted.roles)
        """)
    }
  }
}

extension ProfileTable {
  /// Whether a client's claim in this table names a transaction, which the App Store can verify.
  var claimsNameTransactions: Bool { destination == .profiles }
}

extension ClientWrites {
  fileprivate var strictness: Int {
    switch self {
    case .accept: 0
    case .observe: 1
    case .refuse: 2
    }
  }
}
