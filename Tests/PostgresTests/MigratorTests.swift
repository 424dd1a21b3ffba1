import Foundation
import Platform
import Postgres
import TestDatabase
import Testing

struct MigratorTests {
  @Test func `migrations run once, in the order of their names`() async throws {
    try await withMigrations(twoMigrations) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      let pending = try await migrator.pending()
      #expect(pending.map(\.version) == ["20260101", "20260102"])
      let applied = try await migrator.apply()
      #expect(applied.map(\.name) == ["first", "second"])
      let again = try await migrator.apply()
      #expect(again.isEmpty)
      let rows = try await pool.number("select count(*) from b")
      #expect(rows == 2)
      let status = try await migrator.status()
      #expect(status == applied)
    }
  }

  @Test func `a migration reads definitions without quotes, whatever the database quotes`() async throws {
    let files = [
      "20260101_quotes.sql": """
      do $$ begin
        execute format('alter database %I set quote_all_identifiers = on', current_database());
      end $$;
      """,
      "20260102_view.sql": """
      create view v as select 1 as n;
      do $$ begin
        if pg_get_viewdef('v'::regclass) like '%"%' then raise exception 'quoted'; end if;
      end $$;
      """,
    ]
    try await withMigrations(files) { folder, pool in
      // Each file has a session of its own.
      let applied = try await Migrator(pool: pool, folder: folder.path).apply()
      #expect(applied.map(\.name) == ["quotes", "view"])
    }
  }

  @Test func `the migration status of an empty database changes nothing`() async throws {
    try await withMigrations(twoMigrations) { folder, pool in
      let status = try await Migrator(pool: pool, folder: folder.path).status()
      #expect(status.map(\.state) == [.pending, .pending])
      let tables = try await pool.number("select count(*) from pg_tables where schemaname = 'public'")
      #expect(tables == 0)
    }
  }

  @Test func `every column of schema_migrations has a comment`() async throws {
    try await withMigrations(twoMigrations) { folder, pool in
      try await Migrator(pool: pool, folder: folder.path).apply()
      let missing = try await pool.number(
        """
        select count(*) from pg_attribute where attrelid = 'schema_migrations'::regclass and attnum > 0
          and col_description(attrelid, attnum) is null
        """)
      #expect(missing == 0)
      let checksum = try await pool.query("select checksum from schema_migrations where version = '20260101'")
      #expect(try checksum[0].decode("checksum", as: String.self).utf8.count == 64)
    }
  }

  @Test func `ten servers that start at once apply each migration once`() async throws {
    var files = twoMigrations
    for n in 3...9 { files["2026010\(n)_more.sql"] = "create table t\(n) (n int); select pg_sleep(0.01);" }
    try await withMigrations(files) { folder, pool in
      let path = folder.path
      let applied = try await withThrowingTaskGroup(of: [String].self) { group in
        for _ in 0..<10 {
          group.addTask { try await Migrator(pool: pool, folder: path).apply().map(\.version) }
        }
        return try await group.reduce([], +)
      }
      #expect(
        applied.sorted() == files.keys.filter { $0.hasSuffix("sql") }.map { String($0.prefix(8)) }.sorted())
      let rows = try await pool.number("select count(*) from schema_migrations")
      #expect(rows == 9)
    }
  }

  @Test
  func `an edited file that was applied fails the migration run, which names the file and applies nothing`()
    async throws
  {
    try await withMigrations(twoMigrations) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      try await migrator.apply()
      try folder.write("20260101_first.sql", "create table a (n bigint);")
      try folder.write("20260103_third.sql", "create table c (n int);")
      let error = try await migrationFailure { try await migrator.apply() }
      #expect(error?.kind == .changed)
      #expect(error?.file == "20260101_first.sql")
      let third = try await pool.query("select to_regclass('c') is null as missing")
      #expect(try third[0].decode("missing", as: Bool.self))
      let status = try await migrator.status()
      guard case .changed = status[0].state else {
        Issue.record("\(status)")
        return
      }
    }
  }

  @Test func `a failed migration is rolled back, and the earlier ones stay applied`() async throws {
    try await withMigrations(twoMigrations) { folder, pool in
      try folder.write("20260103_third.sql", "create table c (n int);\n\ninsert into ü values (1);\n")
      let migrator = Migrator(pool: pool, folder: folder.path)
      let error = try await migrationFailure { try await migrator.apply() }
      #expect(error?.kind == .failed)
      #expect(error?.file == "20260103_third.sql")
      #expect(error?.line == 3)
      #expect(error?.report?.sqlState == "42P01")
      let status = try await migrator.status()
      #expect(status.count { $0.state == .pending } == 1)
      let tables = try await pool.number("select count(*) from pg_tables where tablename in ('a', 'b', 'c')")
      #expect(tables == 2)
      try folder.write("20260103_third.sql", "create table c (n int);")
      let applied = try await migrator.apply()
      #expect(applied.map(\.version) == ["20260103"])
    }
  }

  @Test func `a migration that cannot be recorded fails with its name and changes nothing`() async throws {
    let files = [
      "20260101_first.sql": "alter table schema_migrations add check (version <> '20260102') not valid;",
      "20260102_second.sql": "create table b (n int);",
    ]
    try await withMigrations(files) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      let error = try await migrationFailure { try await migrator.apply() }
      #expect(error?.kind == .failed)
      #expect(error?.file == "20260102_second.sql")
      #expect(error?.line == nil)
      #expect(error?.report?.sqlState == "23514")
      let status = try await migrator.status()
      #expect(status.count { $0.state == .pending } == 1)
      let tables = try await pool.number("select count(*) from pg_tables where tablename = 'b'")
      #expect(tables == 0)
    }
  }

  @Test(arguments: [
    "select pg_terminate_backend(pg_backend_pid());",
    """
    create function ends() returns trigger language plpgsql as
      'begin perform pg_terminate_backend(pg_backend_pid()); return new; end';
    create trigger ends before insert on schema_migrations execute function ends();
    """,
  ])
  func `a database that becomes unavailable during a migration gives PostgresError, not a migration failure`(
    sql: String
  ) async throws {
    try await withMigrations(["20260101_first.sql": sql]) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      let error = await #expect(throws: PostgresError.self) { try await migrator.apply() }
      #expect(error?.isUnavailable == true)
      let pending = try await migrator.pending()
      #expect(pending.count == 1)
    }
  }

  @Test func `applied migrations of a newer version have the status unknown and are not an error`()
    async throws
  {
    try await withMigrations(twoMigrations) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      try await migrator.apply()
      folder.delete("20260102_second.sql")
      let applied = try await migrator.apply()
      #expect(applied.isEmpty)
      let status = try await migrator.status()
      #expect(status.map(\.version) == ["20260101", "20260102"])
      guard case .unknown = status[1].state else {
        Issue.record("\(status)")
        return
      }
    }
  }

  @Test func `a dry run reports the pending migrations and changes nothing`() async throws {
    try await withMigrations(twoMigrations) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      let would = try await migrator.dryRun()
      #expect(would.map(\.version) == ["20260101", "20260102"])
      let tables = try await pool.number("select count(*) from pg_tables where schemaname = 'public'")
      #expect(tables == 0)
      try folder.write("20260103_third.sql", "\nselect nothing from b;")
      let error = try await migrationFailure { _ = try await migrator.dryRun() }
      #expect(error?.file == "20260103_third.sql")
      #expect(error?.line == 2)
      #expect(error?.report?.sqlState == "42703")
    }
  }

  @Test func `an idempotent migration succeeds on a database where it was applied by hand`() async throws {
    let files = [
      "20260119_columns.sql":
        "create table if not exists p (id int); alter table p add column if not exists n int;"
    ]
    try await withMigrations(files) { folder, pool in
      _ = try await pool.query("create table p (id int, n int)")
      _ = try await pool.query("insert into p values (1, 2)")
      let applied = try await Migrator(pool: pool, folder: folder.path).apply()
      #expect(applied.map(\.name) == ["columns"])
      let kept = try await pool.number("select n from p")
      #expect(kept == 2)
    }
  }

  @Test func `settings of one migration do not affect the next one or the pool`() async throws {
    let files = [
      "20260101_path.sql": "create schema s; set search_path to s; set role pg_monitor;",
      "20260102_table.sql": "create table here (n int);",
    ]
    try await withMigrations(files) { folder, pool in
      let dry = try await Migrator(pool: pool, folder: folder.path).dryRun()
      #expect(dry.count == 2)
      try await Migrator(pool: pool, folder: folder.path).apply()
      let schema = try await pool.query("select schemaname from pg_tables where tablename = 'here'")
      #expect(try schema[0].decode("schemaname", as: String.self) == "public")
    }
  }

  @Test func `a migration moves schema_migrations, and it is found before and after`() async throws {
    let files = [
      "20260101_first.sql": "create table a (n int);",
      "20260102_move.sql": """
      create table b (n int);
      -- migrate: new transaction
      create schema if not exists receiptd;
      alter table if exists public.schema_migrations set schema receiptd;
      """,
      "20260103_later.sql": "create table public.c (n int);",
    ]
    try await withMigrations(files) { folder, pool in
      // An administrator may have made the schema, which is the first one in which tables are looked for.
      _ = try await pool.query("create schema receiptd")
      let migrator = Migrator(pool: pool, folder: folder.path)
      #expect(try await migrator.dryRun().count == 3)
      #expect(try await migrator.apply().count == 3)
      #expect(try await migrator.pending().isEmpty)
      #expect(try await migrator.apply().isEmpty)
      let schema = try await pool.query(
        "select schemaname from pg_tables where tablename = 'schema_migrations'")
      #expect(try schema.map { try $0.decode("schemaname", as: String.self) } == ["receiptd"])
    }
  }

  @Test func `migrations run without prepared statements`() async throws {
    let folder = try MigrationsFolder(twoMigrations)
    defer { folder.remove() }
    try await withPool {
      $0.usesPreparedStatements = false
    } _: { pool in
      let applied = try await Migrator(pool: pool, folder: folder.path).apply()
      #expect(applied.count == 2)
    }
  }

  @Test func `each test database that starts from migrations is a fresh copy`() async throws {
    let folder = try MigrationsFolder(twoMigrations)
    defer { folder.remove() }
    for _ in 0..<2 {
      try await withTestDatabase(migrationsFolder: folder.path) { database in
        try await database.withPool { pool in
          let rows = try await pool.number("select count(*) from b")
          #expect(rows == 2)
          _ = try await pool.query("delete from b")
        }
      }
    }
  }
}
