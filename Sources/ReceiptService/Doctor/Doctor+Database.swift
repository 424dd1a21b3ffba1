import FoundationEssentials
import Postgres
import Subscriptions

extension Doctor {
  /// Looks at the database: whether it is there, can do what is needed, and lets us.
  func database(_ settings: Settings, _ catalog: AppCatalog?) async -> [Finding] {
    var settings = settings
    var findings: [Finding] = []
    if let mismatch = try? await settings.findPoolerMismatch() {
      let remedy = mismatch.isFatal ? mismatch.remedy : nil
      let finding = mismatch.isFatal ? mismatch.finding : "\(mismatch.finding); \(mismatch.remedy)"
      findings.append(
        Finding(subject: "pooler", isWell: !mismatch.isFatal, finding: finding, remedy: remedy))
      // The other checks work through any pooler with these.
      settings.database.usesPreparedStatements = false
      settings.database.setsOptions = false
    }
    let pool = PostgresPool(configuration: settings.database)
    do {
      findings.append(try await server(pool))
      findings.append(try await clockOfDatabase(pool))
      let migrations = await migrations(pool, settings)
      findings.append(migrations)
      if migrations.isWell {
        let rights = try await rights(pool)
        findings.append(rights)
        if rights.isWell {
          if let finding = try await months(pool) { findings.append(finding) }
          findings.append(try await headers(pool))
          if let catalog { findings.append(try await grants(pool, catalog)) }
        }
        for table in ProfileTable.all {
          let apps = catalog?.apps.filter { $0.writeTo.contains(table.mirror) } ?? []
          if !apps.isEmpty { findings.append(try await profileTable(table, pool)) }
        }
        findings.append(try await supportRole(pool))
        findings.append(try await entitlementKey(settings, pool))
        if let finding = try await Self.publicPremium(pool) { findings.append(finding) }
      }
    } catch {
      findings.append(
        .fail("database", "\(error)", "check DATABASE_URL, and that PostgreSQL listens there"))
    }
    await pool.close(grace: .seconds(1))
    return findings
  }

  private func server(_ pool: PostgresPool) async throws -> Finding {
    let row = try await pool.query(
      """
      SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
        current_user::text, current_database()::text, pg_is_in_recovery()
      """)[0]
    let name = try "PostgreSQL \(row.decode(1, as: String.self))"
    if try row.decode(0, as: Int.self) < 130_000 {
      return .fail("database", "\(name) is too old", "PostgreSQL 13 or later is needed")
    }
    if try row.decode(4, as: Bool.self) {
      return .fail(
        "database", "\(name) is a standby, which takes no writes",
        "name the primary in DATABASE_URL, or all hosts with target_session_attrs=read-write")
    }
    return try .ok(
      "database",
      "\(name), database \(row.decode(3, as: String.self)) as \(row.decode(2, as: String.self))")
  }

  private func clockOfDatabase(_ pool: PostgresPool) async throws -> Finding {
    let before = clock.now()
    let theirs = try await pool.query("SELECT clock_timestamp()")[0].decode(0, as: Date.self)
    return clockFinding(theirs, "the database's", askedAt: before, answeredAt: clock.now(), resolution: 0)
  }

  /// - Parameter resolution: how coarse their clock is, in seconds.
  func clockFinding(
    _ theirs: Date, _ whose: String, askedAt before: Date, answeredAt after: Date, resolution: TimeInterval
  ) -> Finding {
    let uncertainty = after.timeIntervalSince(before) / 2
    let ours = before.addingTimeInterval(uncertainty)
    let difference = theirs.timeIntervalSince(ours) + resolution / 2
    let tenths = (difference * 10).rounded() / 10
    guard abs(difference) > Self.clockTolerance + uncertainty + resolution / 2 else {
      return .ok("clock", "within \(Self.clockTolerance) s of \(whose)")
    }
    return .fail(
      "clock", "\(abs(tenths)) s \(difference > 0 ? "behind" : "ahead of") \(whose)",
      "let NTP set both: what is open is decided by the clock")
  }

  private func migrations(_ pool: PostgresPool, _ settings: Settings) async -> Finding {
    do {
      let entries = try await Migrator(pool: pool, folder: settings.migrationsFolder).status()
      let edited = entries.filter { if case .changed = $0.state { true } else { false } }
      if let entry = edited.first {
        return .fail(
          "migrations", "\(entry.version)_\(entry.name) has been edited since it was applied",
          "put the file back as it was released")
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

  private func profileTable(_ table: ProfileTable, _ pool: PostgresPool) async throws -> Finding {
    let name = table.mirror.rawValue
    let columns =
      table.mirror == .profiles
      ? ["id", "premium_expires_at", "premium_product_id", "premium_original_transaction_id"]
      : ["user_id", "is_premium", "bookmark_limit"]
    let missing = try await pool.query(
      """
      SELECT name FROM unnest(\(columns)::text[]) AS wanted (name) WHERE NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass(\(name)) AND attname = wanted.name AND NOT attisdropped)
      """
    ).map { try $0.decode(0, as: String.self) }
    if !missing.isEmpty {
      return .fail(
        "table \(name)", "has no \(missing.joined(separator: ", "))",
        "run receiptd migrate, or add them again")
    }
    let row = try await pool.query(
      """
      SELECT (SELECT bool_and(has_column_privilege(guarded, name, 'SELECT') AND has_column_privilege(guarded, name, 'INSERT')
          AND (name = \(columns[0]) OR has_column_privilege(guarded, name, 'UPDATE')))
        FROM unnest(\(columns)::text[]) AS wanted (name)), \(unescaped: Self.hidesRows)
      FROM to_regclass(\(name)) AS guarded
      """)[0]
    if try row.decode(1, as: Bool.self) {
      return .fail(
        "table \(name)",
        "row level security hides its rows from this role, so a status would be written nowhere",
        "connect as receiptd_app, the table's owner or a role with BYPASSRLS")
    }
    if try !row.decode(0, as: Bool.self) {
      return .fail(
        "table \(name)", "the role may not write it", "GRANT SELECT, INSERT and UPDATE of these columns")
    }
    return .ok("table \(name)", "has the columns, and the role may write them")
  }

  private func supportRole(_ pool: PostgresPool) async throws -> Finding {
    let row = try await pool.query(
      """
      SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'receiptd_support'),
        (SELECT string_agg(view, ', ') FROM unnest(ARRAY['support_customers', 'support_subscriptions',
           'support_timeline', 'grants', 'support_actions']) AS v (view)
         WHERE EXISTS (SELECT FROM pg_roles
           WHERE rolname = 'receiptd_support' AND NOT has_table_privilege(oid, 'public.' || view, 'SELECT')))
      """)[0]
    if try !row.decode(0, as: Bool.self) {
      return .fail(
        "support role", "there is no receiptd_support",
        "have an administrator run CREATE ROLE receiptd_support NOLOGIN, and GRANT it SELECT")
    }
    if let views = try row.decode(1, as: String?.self) {
      return .fail(
        "support role", "receiptd_support may not read \(views)",
        "GRANT SELECT ON \(views) TO receiptd_support")
    }
    return .ok("support role", "receiptd_support reads the views")
  }
}
