import Foundation
import Platform
import Postgres
import TestDatabase
import Testing

/// Migrations that wait for locks, and migrations in steps.
struct MigrationLockTests {
  private let quickRetry = Backoff(base: .milliseconds(20), maximum: .milliseconds(20), jitter: 0)

  @Test func `a migration that loses a deadlock runs again`() async throws {
    let files = [
      "20260101_first.sql": "create table a (n int); create table b (n int);",
      "20260102_second.sql":
        "set local deadlock_timeout = '500ms'; alter table a add m int; alter table b add m int;",
    ]
    try await withMigrations(files.filter { $0.key.contains("first") }) { before, pool in
      try await Migrator(pool: pool, folder: before.path).apply()
      let folder = try MigrationsFolder(files)
      defer { folder.remove() }
      let migrator = Migrator(pool: pool, folder: folder.path)
      let applied = try await pool.withTransaction { connection in
        _ = try await connection.query("set local deadlock_timeout = '60s'")
        _ = try await connection.query("insert into b values (1)")
        let migration = Task { try await migrator.apply() }
        // The migration holds a's lock and waits for b's.
        let waits = try await pool.wait(
          until: "select exists (select from pg_locks where relation = 'b'::regclass and not granted)")
        #expect(waits)
        _ = try await connection.query("insert into a values (1)")
        return migration
      }.value
      #expect(applied.map(\.version) == ["20260102"])
    }
  }

  @Test func `a migration with a lock timeout is retried until the table is free`()
    async throws
  {
    let files = [
      "20260101_first.sql": "create table a (n int); create sequence tries;",
      // A rollback does not reset a sequence.
      "20260102_second.sql":
        "select nextval('tries'); set local lock_timeout = '20ms'; alter table a add m int;",
    ]
    try await withMigrations(files.filter { $0.key.contains("first") }) { before, pool in
      try await Migrator(pool: pool, folder: before.path).apply()
      let folder = try MigrationsFolder(files)
      defer { folder.remove() }
      let migrator = Migrator(pool: pool, folder: folder.path, retry: quickRetry)
      let applied = try await pool.withTransaction { connection in
        _ = try await connection.query("select * from a")
        let migration = Task { try await migrator.apply() }
        let isTriedAgain = try await pool.wait(until: "select last_value >= 3 from tries")
        #expect(isTriedAgain)
        return migration
      }.value
      #expect(applied.map(\.version) == ["20260102"])
    }
  }

  @Test func `each migration has a lock timeout and is retried by default`() async throws {
    let files = [
      "20260101_first.sql": "create table a (n int); create sequence tries;",
      "20260102_second.sql": "select nextval('tries'); alter table a add m int;",
    ]
    try await withMigrations(files.filter { $0.key.contains("first") }) { before, pool in
      try await Migrator(pool: pool, folder: before.path).apply()
      let folder = try MigrationsFolder(files)
      defer { folder.remove() }
      let migrator = Migrator(
        pool: pool, folder: folder.path, lockTimeout: .milliseconds(20), retry: quickRetry)
      let applied = try await pool.withTransaction { connection in
        _ = try await connection.query("select * from a")
        let migration = Task { try await migrator.apply() }
        let isTriedAgain = try await pool.wait(until: "select last_value >= 3 from tries")
        #expect(isTriedAgain)
        return migration
      }.value
      #expect(applied.map(\.version) == ["20260102"])
    }
  }

  @Test func `a migration that never gets its lock fails with a hint`() async throws {
    let files = [
      "20260101_first.sql": "do $$ begin raise exception 'no lock' using errcode = '55P03'; end $$;"
    ]
    try await withMigrations(files) { folder, pool in
      let retry = Backoff(base: .zero, maximum: .zero, jitter: 0)
      let error = try await migrationFailure {
        try await Migrator(pool: pool, folder: folder.path, retry: retry).apply()
      }
      #expect(error?.description.contains("another transaction uses the table") == true)
    }
  }

  private let steps = [
    "20260101_steps.sql": """
    create table if not exists txids (step int, txid bigint);
    insert into txids values (1, txid_current());
    -- migrate: new transaction
    insert into txids values (2, txid_current());
    -- migrate: new transaction
    insert into txids values (3, txid_current());
    """
  ]

  @Test func `a file in steps has a transaction for each step`() async throws {
    try await withMigrations(steps) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      let dry = try await migrator.dryRun()
      #expect(dry.map(\.version) == ["20260101"])
      let applied = try await migrator.apply()
      #expect(applied.map(\.version) == ["20260101"])
      let transactions = try await pool.number(
        "select count(distinct txid) from txids where step in (1, 2, 3)")
      #expect(transactions == 3)
      let rows = try await pool.number("select count(*) from schema_migrations")
      #expect(rows == 1)
    }
  }

  @Test func `the steps of a file share a session, and a new one goes on after its end`() async throws {
    // The third step's lock of migrations ends the session.
    let files = [
      "20260101_steps.sql": """
      create table sessions (step int, pid int);
      insert into sessions values (1, pg_backend_pid());
      create schema s;
      create function s.pg_advisory_xact_lock(bigint) returns void language sql as
        'select pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())';
      -- migrate: new transaction
      insert into sessions values (2, pg_backend_pid());
      set search_path to s, pg_catalog, public;
      -- migrate: new transaction
      insert into sessions values (3, pg_backend_pid());
      """
    ]
    try await withMigrations(files) { folder, pool in
      let applied = try await Migrator(pool: pool, folder: folder.path).apply()
      #expect(applied.map(\.version) == ["20260101"])
      let sessions = try await pool.query("select pid from sessions order by step").map {
        try $0.decode("pid", as: Int.self)
      }
      try #require(sessions.count == 3)
      #expect(sessions[0] == sessions[1])
      #expect(sessions[1] != sessions[2])
    }
  }

  @Test func `a file whose later step fails is pending, and runs again from its first step`() async throws {
    try await withMigrations(steps) { folder, pool in
      let bad = (steps["20260101_steps.sql"] ?? "") + "\n\nselect nothing;"
      try folder.write("20260101_steps.sql", bad)
      let migrator = Migrator(pool: pool, folder: folder.path)
      let error = try await migrationFailure { try await migrator.apply() }
      #expect(error?.line == 8)
      let kept = try await pool.number("select sum(step) from txids")
      #expect(kept == 3)
      try folder.write("20260101_steps.sql", steps["20260101_steps.sql"] ?? "")
      let applied = try await migrator.apply()
      #expect(applied.count == 1)
      let total = try await pool.number("select sum(step) from txids")
      #expect(total == 3 + 6)
    }
  }
}
