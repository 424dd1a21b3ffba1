import Configuration
import Foundation
import Postgres
import Subscriptions
import Work

extension Doctor {
  /// For how long no client may have written before `refuse` is safe, in days.
  private static let quietDays = 30.0

  /// Reports, for each of the app's own tables, the mode in which clients may write the premium columns, how many wrote
  /// lately, and when the mode `refuse` breaks no old build.
  func clientWrites(
    _ pool: PostgresPool, _ settings: Settings, _ catalog: AppCatalog
  ) async throws -> [CheckResult] {
    let modes = ClientWriteModes(catalog: catalog, appsWithKey: catalog.appsWithStoreKey(settings))
    let recent = try await pool.query(ClientWriteRows.recent(at: clock.now())).map(
      ClientWriteRows.Recent.init)
    var results: [CheckResult] = []
    for stored in try await ClientWriteModes.read(pool) {
      guard let table = ProfileTable.all.first(where: { $0.destination.rawValue == stored.table }),
        let recent = recent.first(where: { $0.table == stored.table }),
        !modes.apps(writingTo: table).isEmpty
      else { continue }
      results.append(report(stored, modes, table, recent))
      results += try await premiumWriters(pool, stored, modes, table)
    }
    return results
  }

  private func report(
    _ stored: ClientWriteModes.StoredMode, _ modes: ClientWriteModes, _ table: ProfileTable,
    _ recent: ClientWriteRows.Recent
  ) -> CheckResult {
    let configured = modes.mode(of: table, existedBefore: stored.existedBefore)
    let isSet = modes.apps(writingTo: table).contains { $0.clientWrites != nil }
    var parts = [
      "\(configured.rawValue)" + (isSet ? "" : " (by default; clientWrites is not set)")
        + (stored.mode == configured
          ? ""
          : ", in force once a server has started or read its configuration; now \(stored.inForce.rawValue)")
    ]
    if configured != .refuse || recent.writes > 0 {
      let users = recent.users == 1 ? "1 user" : "\(recent.users) users"
      let writes = recent.writes == 1 ? "1 client write" : "\(recent.writes) client writes"
      let bound = recent.bound > 0 ? ", \(recent.bound) of them with a verified purchase" : ""
      parts.append("\(writes) of \(users) in the last 30 days\(bound)")
      if let last = recent.last { parts.append("the last at \(last.rfc3339)") }
    }
    if configured != .refuse {
      // The count may be younger than 30 days.
      let quietSince = max(recent.last ?? .distantPast, stored.countedSince)
      let safe = quietSince.addingTimeInterval(Self.quietDays * 86_400)
      parts.append(
        safe <= clock.now()
          ? "refuse is safe now" : "refuse is safe from \(safe.rfc3339), if no client writes until then")
    }
    return .ok("client writes to \(stored.table)", parts.joined(separator: "; "))
  }
}

extension ClientWriteModes.StoredMode {
  /// The mode that the triggers apply.
  fileprivate var inForce: ClientWrites { mode ?? (existedBefore ? .accept : .refuse) }
}

extension Doctor {
  /// Names the roles, beside receiptd's and Supabase's, that have the right to write premium columns of a table.
  func premiumWriters(
    _ pool: PostgresPool, _ stored: ClientWriteModes.StoredMode, _ modes: ClientWriteModes,
    _ table: ProfileTable
  ) async throws -> [CheckResult] {
    let subject = "premium writers of \(stored.table)"
    let configured = modes.writers(to: table)
    let roles = try await pool.query(PremiumWriterRows.holders(of: stored.table)).map(
      PremiumWriterRows.Holder.init)
    let writers = roles.filter { $0.writes || configured.contains($0.name) }.map(\.name)
    var results: [CheckResult] = []
    if let role = roles.first(where: { $0.addsTriggers && !writers.contains($0.name) }) {
      results.append(
        .fail(
          subject, "\(role.name) may add triggers to the table, which would run with the server's rights",
          "REVOKE TRIGGER ON public.\(stored.table) FROM \(role.name)"))
    }
    let known = try await pool.query(PremiumWriterRows.known(configured)).map(PremiumWriterRows.Listed.init)
    if let role = known.first(where: \.isClient) {
      results.append(
        .fail(
          subject, "PostgREST acts as \(role.name) for clients, so each of them could make itself premium",
          "remove it from premiumWriters"))
    }
    let missing = Set(configured).subtracting(known.map(\.name)).sorted()
    if !missing.isEmpty {
      results.append(
        .warn(
          subject,
          "premiumWriters names \(missing.joined(separator: ", ")), and the database has no such role",
          "correct the name"))
    }
    if !writers.isEmpty {
      results.append(
        .ok(subject, "\(writers.joined(separator: ", ")) may write them too, by premiumWriters or BYPASSRLS"))
    }
    let clients = roles.filter { !writers.contains($0.name) && $0.mayWrite }.map(\.name)
    if !clients.isEmpty {
      let message = "\(clients.joined(separator: ", ")) has rights on them and counts as a client"
      results.append(
        stored.mode == .refuse
          ? .ok(subject, "\(message): its writes are refused")
          : .warn(
            subject, message,
            "if it is your own backend's role, list it in premiumWriters before clientWrites is refuse"))
    }
    return results
  }
}

/// Queries on the roles that may write premium columns.
private enum PremiumWriterRows {
  /// A role with a right on the premium columns of a table.
  struct Holder {
    var name: String
    /// Whether it counts as a server: see `receiptd_writes_premium`.
    var writes: Bool
    var mayWrite: Bool
    var addsTriggers: Bool

    init(_ row: Row) throws {
      name = try row.decode("name")
      writes = try row.decode("writes")
      mayWrite = try row.decode("may_write")
      addsTriggers = try row.decode("adds_triggers")
    }
  }

  /// A role of the configuration that the database has.
  struct Listed {
    var name: String
    var isClient: Bool

    init(_ row: Row) throws {
      name = try row.decode("name")
      isClient = try row.decode("is_client")
    }
  }

  static func holders(of table: String) -> Query {
    """
    SELECT * FROM (
      SELECT r.rolname::text AS name, receiptd_writes_premium(t.oid, r.rolname) AS writes, EXISTS (
          SELECT FROM unnest(ARRAY['premium_expires_at', 'premium_product_id', 'premium_original_transaction_id', 'is_premium',
            'bookmark_limit']) AS c JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = c AND NOT a.attisdropped
          WHERE has_column_privilege(r.oid, t.oid, a.attnum, 'INSERT, UPDATE')) AS may_write,
        has_table_privilege(r.oid, t.oid, 'TRIGGER') AS adds_triggers
      FROM pg_roles r JOIN pg_class t ON t.oid = to_regclass('public.' || \(table))
      WHERE NOT r.rolsuper AND r.rolname NOT LIKE 'pg\\_%' AND NOT pg_has_role(r.oid, t.relowner, 'USAGE')
        AND r.rolname NOT IN ('anon', 'authenticated', 'receiptd_app', 'service_role')
    ) AS holder WHERE may_write OR adds_triggers ORDER BY name LIMIT 20
    """
  }

  static func known(_ names: [String]) -> Query {
    """
    SELECT rolname::text AS name, oid = ANY (receiptd_client_roles()::oid[]) AS is_client FROM pg_roles
    WHERE rolname = ANY(\(names)) ORDER BY 1
    """
  }
}
