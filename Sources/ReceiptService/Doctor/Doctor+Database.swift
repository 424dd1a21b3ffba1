import Configuration
import Customers
import Foundation
import Platform
import Postgres
import Subscriptions
import Work

extension Doctor {
  /// Checks the database: its version, clock, migrations, privileges and tables.
  func database(_ settings: Settings, _ catalog: AppCatalog?) async -> [CheckResult] {
    var settings = settings
    var results: [CheckResult] = []
    if let mismatch = try? await settings.findPoolerMismatch() {
      let remedy = mismatch.isFatal ? mismatch.remedy : nil
      let message = mismatch.isFatal ? mismatch.message : "\(mismatch.message); \(mismatch.remedy)"
      results.append(
        CheckResult(subject: "pooler", isOK: !mismatch.isFatal, message: message, remedy: remedy))
      // With these the other checks work through any pooler.
      settings.database.usesPreparedStatements = false
      settings.database.setsOptions = false
    }
    let pool = PostgresPool(configuration: settings.database)
    do {
      results.append(try await server(pool))
      results.append(Self.check(peer: try await pool.withConnection { $0.peer }))
      results.append(try await collation(pool))
      results.append(try await clockOfDatabase(pool))
      let migrations = await migrations(pool, settings)
      results.append(migrations)
      let fault = migrations.isOK ? try await searchPath(pool) : nil
      if let fault { results.append(fault) }
      if migrations.isOK, fault == nil {
        let privileges = try await privileges(pool)
        results.append(privileges)
        if privileges.isOK {
          results.append(try await headers(pool))
          results += try await backlog(pool)
          if let result = try await unownedPurchases(pool) { results.append(result) }
          if let catalog { results += try await oldProofs(pool, settings, catalog) }
          if let catalog { results.append(try await grants(pool, catalog)) }
          if let catalog, let result = try await xcode(pool, catalog) { results.append(result) }
        }
        results += try await subscriptions(pool)
        for (table, shape) in [
          (ProfileTable.profiles, TableShape.profiles), (.userPreferences, .userPreferences),
        ] {
          let apps = catalog?.apps.filter { $0.writeTo.contains(table.destination) } ?? []
          if !apps.isEmpty { results += try await profileTable(shape, pool) }
        }
        if let catalog { results += try await clientWrites(pool, settings, catalog) }
        if let result = try await contestedPurchases(pool) { results.append(result) }
        results.append(try await supportRole(pool))
        if let result = try await pool.withConnection({ try await Self.rolesOfClients(on: $0) }) {
          results.append(result)
        }
        if let result = try await otherRoles(pool) { results.append(result) }
        if let result = try await rightsBeyondTheList(pool) { results.append(result) }
        if let result = try await viewsOfOwner(pool) { results.append(result) }
        for schema in ["receiptd", "public"] {
          if let result = try await creators(in: schema, pool) { results.append(result) }
        }
        if let result = try await schemaOfRole(pool) { results.append(result) }
        results.append(try await entitlementKey(settings, pool))
        if let result = try await Self.publicPremium(pool) { results.append(result) }
      }
    } catch {
      // A session that cannot start on a full disk: PostgreSQL names a file, and not the disk.
      let remedy =
        "\(error)".contains("could not write")
        ? "look for a full disk on PostgreSQL's machine (df)"
        : "check DATABASE_URL, and whether PostgreSQL listens there"
      results.append(.fail("database", "\(error)", remedy))
    }
    await pool.close(grace: .seconds(1))
    return results
  }

  private func server(_ pool: PostgresPool) async throws -> CheckResult {
    let server = try await Server(
      pool.query(
        """
        SELECT current_setting('server_version_num')::bigint AS version_number,
          current_setting('server_version') AS version, current_user::text AS role,
          current_database()::text AS database, pg_is_in_recovery() AS is_standby
        """)[0])
    let name = "PostgreSQL \(server.version)"
    if server.versionNumber < 130_000 {
      return .fail("database", "\(name) is too old", "PostgreSQL 13 or later is needed")
    }
    if server.isStandby {
      return .fail(
        "database", "\(name) is a standby and accepts no writes",
        "name the primary in DATABASE_URL, or all hosts with target_session_attrs=read-write")
    }
    return .ok("database", "\(name), database \(server.database) as \(server.role)")
  }

  /// The server and the session, as PostgreSQL describes them.
  private struct Server {
    var versionNumber: Int
    var version: String
    var role: String
    var database: String
    var isStandby: Bool

    init(_ row: Row) throws {
      versionNumber = try row.decode("version_number")
      version = try row.decode("version")
      role = try row.decode("role")
      database = try row.decode("database")
      isStandby = try row.decode("is_standby")
    }
  }

  private func clockOfDatabase(_ pool: PostgresPool) async throws -> CheckResult {
    let before = clock.now()
    let theirs = try await pool.query("SELECT clock_timestamp() AS time")[0].decode("time", as: Date.self)
    return checkClock(theirs, of: "database", askedAt: before, answeredAt: clock.now(), resolution: 0)
  }

  /// Compares the clock with another one.
  /// - Parameter resolution: the resolution of the other clock, in seconds.
  func checkClock(
    _ theirs: Date, of owner: String, askedAt before: Date, answeredAt after: Date, resolution: TimeInterval
  ) -> CheckResult {
    let uncertainty = after.timeIntervalSince(before) / 2
    let ours = before.addingTimeInterval(uncertainty)
    let difference = theirs.timeIntervalSince(ours) + resolution / 2
    let tenths = (difference * 10).rounded() / 10
    guard abs(difference) > ClockCorrection.tolerance + uncertainty + resolution / 2 else {
      return .ok("clock (\(owner))", "within \(ClockCorrection.tolerance) s of the \(owner)'s")
    }
    return .fail(
      "clock (\(owner))",
      "this machine's is \(abs(tenths)) s \(difference > 0 ? "behind" : "ahead of") the \(owner)'s",
      "set the clocks by NTP")
  }

  private func migrations(_ pool: PostgresPool, _ settings: Settings) async -> CheckResult {
    do {
      let entries = try await Migrator(pool: pool, folder: settings.migrationsFolder).status()
      let removed = entries.filter { if case .removed = $0.state { true } else { false } }
      if let entry = removed.first {
        return .fail(
          "migrations",
          "\(entry.version)_\(entry.name) was applied by a version from before the migrations were folded",
          "dump the data and restore it into a new database, or start with an empty one")
      }
      let edited = entries.filter { if case .changed = $0.state { true } else { false } }
      if let entry = edited.first {
        return .fail(
          "migrations", "\(entry.version)_\(entry.name) has been edited since it was applied",
          "restore the released file")
      }
      let pending = entries.filter { $0.state == .pending }
      if let entry = pending.first {
        return .fail(
          "migrations",
          "\(pending.count) of \(entries.count) are pending, first \(entry.version)_\(entry.name)",
          "run receiptd migrate, or start receiptd serve")
      }
      return .ok("migrations", "all \(entries.count) applied")
    } catch {
      return .fail("migrations", "\(error)", "check RECEIPTD_MIGRATIONS and DATABASE_URL")
    }
  }

  private func profileTable(_ shape: TableShape, _ pool: PostgresPool) async throws -> [CheckResult] {
    let faults = try await faults(of: shape, pool)
    return faults.isEmpty ? [try await profilePrivileges(shape, pool)] : faults
  }

  private func profilePrivileges(_ shape: TableShape, _ pool: PostgresPool) async throws -> CheckResult {
    let name = shape.name
    let columns = shape.types.map(\.column)
    let row = try await pool.query(
      """
      SELECT (SELECT bool_and(has_column_privilege(guarded, name, 'SELECT') AND has_column_privilege(guarded, name, 'INSERT')
          AND (name = \(shape.key) OR has_column_privilege(guarded, name, 'UPDATE')))
        FROM unnest(\(columns)::text[]) AS wanted (name)) AS may_write,
        \(unescaped: Self.hidesRows) AS hides_rows
      FROM to_regclass(\(name)) AS guarded
      """)[0]
    if try row.decode("hides_rows", as: Bool.self) {
      return .fail(
        "table \(name)",
        "row level security hides its rows from this role, so no status is written",
        "connect as receiptd_app, the table's owner or a role with BYPASSRLS")
    }
    if try !row.decode("may_write", as: Bool.self) {
      return .fail(
        "table \(name)", "the role lacks privileges to write it",
        "grant SELECT, INSERT and UPDATE of these columns")
    }
    let others = try await columnsForTheApp(shape, pool)
    let note =
      others.isEmpty
      ? "" : "; the app must add the rows, because \(others.joined(separator: ", ")) has no default"
    return .ok("table \(name)", "has the columns, and the role can write them\(note)")
  }
}

extension Doctor {
  /// Checks that a connection that leaves this machine is encrypted.
  static func check(peer: PostgresPeer) -> CheckResult {
    let subject = "connection"
    if peer.isEncrypted { return .ok(subject, "to \(peer.address), encrypted") }
    if peer.address.isEmpty { return .ok(subject, "by a Unix socket") }
    if IPAddress(peer.address)?.isLoopback == true {
      return .ok(subject, "to \(peer.address), on this machine")
    }
    return .warn(
      subject,
      "to \(peer.address), not encrypted: every customer's data and a password can be read and changed on the way",
      "add sslmode=verify-full and sslrootcert to DATABASE_URL; containers of one machine need none of this")
  }

  /// Checks that the database compares texts by bytes.
  func collation(_ pool: PostgresPool) async throws -> CheckResult {
    // Before PostgreSQL 15 there is no column datlocprovider.
    let row = try await pool.query(
      """
      SELECT datcollate::text AS collation, coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') AS provider
      FROM pg_database d WHERE datname = current_database()
      """)[0]
    return Self.check(
      collation: try row.decode("collation", as: String.self),
      provider: try row.decode("provider", as: String.self))
  }

  /// - Parameter provider: `pg_database.datlocprovider`: `c` the C library, `i` ICU, `b` PostgreSQL itself.
  static func check(collation: String, provider: String) -> CheckResult {
    let comparesBytes = ["C", "POSIX", "C.UTF-8", "C.utf8"].contains(collation)
    if provider == "b" || (provider == "c" && comparesBytes) {
      return .ok("collation", "\(collation): texts are compared by bytes")
    }
    return .warn(
      "collation",
      "\(provider == "i" ? "ICU" : collation): texts are compared by a language's rules, so new rows cost up to half as "
        + "much again, and an upgrade of the system can break indexes",
      "restore a dump into a database made with createdb -T template0 --lc-collate=C")
  }
}

extension Doctor {
  /// Checks the keys of entitlement tokens. It creates none.
  func entitlementKey(_ settings: Settings, _ pool: PostgresPool) async throws -> CheckResult {
    let subject = "entitlement key"
    if let keys = settings.entitlementKeys {
      return check(EntitlementKeyRing(files: keys.map { EntitlementKey($0) }), "of ENTITLEMENT_KEY")
    }
    do {
      let entries = try await pool.query(EntitlementKeyRows.select).map(EntitlementKeyRows.decode)
      guard !entries.isEmpty else { return .ok(subject, "none yet; the first start creates one") }
      return check(EntitlementKeyRing(entries, lifetime: 0), "of the database")
    } catch let damage as DamagedEntitlementKey {
      return .fail(subject, "\(damage)", "run receiptd rotate-entitlement-key --leaked")
    }
  }

  private func check(_ ring: EntitlementKeyRing, _ source: String) -> CheckResult {
    .ok("entitlement key", "\(ring.signing(at: clock.now())?.kid ?? "none") \(source) signs")
  }
}
