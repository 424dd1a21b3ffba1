import Foundation
import Platform
import Postgres
import TestDatabase
import Testing

struct MigratorTests {
  /// Runs `body` with a folder of migrations, which is deleted afterwards.
  private func withFolder(
    _ files: [String: String],
    _ body: nonisolated(nonsending) (MigrationsFolder, PostgresPool) async throws -> Void
  ) async throws {
    let folder = try MigrationsFolder(files)
    defer { folder.remove() }
    try await withPool {
      $0.maximumConnections = 4
    } _: { pool in
      try await body(folder, pool)
    }
  }

  private func failure(
    _ body: nonisolated(nonsending) () async throws -> Void
  ) async throws -> MigrationError? {
    do {
      try await body()
      return nil
    } catch let error as MigrationError {
      return error
    }
  }

  private let quickRetry = Backoff(base: .milliseconds(20), maximum: .milliseconds(20), jitter: 0)

  private let two = [
    "20260102_second.sql": "create table b (n int); insert into b select n from a;",
    "20260101_first.sql": "create table a (n int);\ninsert into a values (1), (2);",
    "notes.txt": "not a migration",
  ]

  @Test func `migrations run once, in the order of their names`() async throws {
    try await withFolder(two) { folder, pool in
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

  @Test func `the migration status of an empty database changes nothing`() async throws {
    try await withFolder(two) { folder, pool in
      let status = try await Migrator(pool: pool, folder: folder.path).status()
      #expect(status.map(\.state) == [.pending, .pending])
      let tables = try await pool.number("select count(*) from pg_tables where schemaname = 'public'")
      #expect(tables == 0)
    }
  }

  @Test func `every column of schema_migrations has a comment`() async throws {
    try await withFolder(two) { folder, pool in
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
    var files = two
    for n in 3...9 { files["2026010\(n)_more.sql"] = "create table t\(n) (n int); select pg_sleep(0.01);" }
    try await withFolder(files) { folder, pool in
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
    try await withFolder(two) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      try await migrator.apply()
      try folder.write("20260101_first.sql", "create table a (n bigint);")
      try folder.write("20260103_third.sql", "create table c (n int);")
      let error = try await failure { try await migrator.apply() }
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
    try await withFolder(two) { folder, pool in
      try folder.write("20260103_third.sql", "create table c (n int);\n\ninsert into ü values (1);\n")
      let migrator = Migrator(pool: pool, folder: folder.path)
      let error = try await failure { try await migrator.apply() }
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
    try await withFolder(files) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      let error = try await failure { try await migrator.apply() }
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
    try await withFolder(["20260101_first.sql": sql]) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      let error = await #expect(throws: PostgresError.self) { try await migrator.apply() }
      #expect(error?.isUnavailable == true)
      let pending = try await migrator.pending()
      #expect(pending.count == 1)
    }
  }

  @Test func `a migration that loses a deadlock runs again`() async throws {
    let files = [
      "20260101_first.sql": "create table a (n int); create table b (n int);",
      "20260102_second.sql":
        "set local deadlock_timeout = '500ms'; alter table a add m int; alter table b add m int;",
    ]
    try await withFolder(files.filter { $0.key.contains("first") }) { before, pool in
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
    try await withFolder(files.filter { $0.key.contains("first") }) { before, pool in
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
    try await withFolder(files.filter { $0.key.contains("first") }) { before, pool in
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
    try await withFolder(files) { folder, pool in
      let retry = Backoff(base: .zero, maximum: .zero, jitter: 0)
      let error = try await failure {
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
    try await withFolder(steps) { folder, pool in
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

  @Test func `a file whose later step fails is pending, and runs again from its first step`() async throws {
    try await withFolder(steps) { folder, pool in
      let bad = (steps["20260101_steps.sql"] ?? "") + "\n\nselect nothing;"
      try folder.write("20260101_steps.sql", bad)
      let migrator = Migrator(pool: pool, folder: folder.path)
      let error = try await failure { try await migrator.apply() }
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

  @Test func `a missing file before an applied one is refused before any migration runs`()
    async throws
  {
    try await withFolder(two) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      try await migrator.apply()
      folder.delete("20260102_second.sql")
      try folder.write("20260103_third.sql", "create table c (n int);")
      guard case .removed = try await migrator.status().last?.state else {
        Issue.record("the missing file is not reported")
        return
      }
      for error in [
        try await failure { try await migrator.apply() },
        try await failure { _ = try await migrator.dryRun() },
      ] {
        #expect(error?.kind == .removed)
        #expect(error?.file == "20260102_second.sql")
        #expect(error?.description.contains("before the migrations were folded") == true)
      }
      let found = try await pool.query("select to_regclass('c') is null as missing")
      #expect(try found[0].decode("missing", as: Bool.self))
    }
  }

  @Test func `applied migrations of a newer version have the status unknown and are not an error`()
    async throws
  {
    try await withFolder(two) { folder, pool in
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
    try await withFolder(two) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      let would = try await migrator.dryRun()
      #expect(would.map(\.version) == ["20260101", "20260102"])
      let tables = try await pool.number("select count(*) from pg_tables where schemaname = 'public'")
      #expect(tables == 0)
      try folder.write("20260103_third.sql", "\nselect nothing from b;")
      let error = try await failure { _ = try await migrator.dryRun() }
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
    try await withFolder(files) { folder, pool in
      _ = try await pool.query("create table p (id int, n int)")
      _ = try await pool.query("insert into p values (1, 2)")
      let applied = try await Migrator(pool: pool, folder: folder.path).apply()
      #expect(applied.map(\.name) == ["columns"])
      let kept = try await pool.number("select n from p")
      #expect(kept == 2)
    }
  }

  @Test func `a migration that ends its transaction is refused`() async throws {
    try await withFolder(["20260101_commits.sql": "create table a (n int); commit; begin;"]) { folder, pool in
      let error = try await failure { try await Migrator(pool: pool, folder: folder.path).apply() }
      #expect(error?.kind == .endsTransaction)
    }
  }

  @Test func `settings of one migration do not affect the next one or the pool`() async throws {
    let files = [
      "20260101_path.sql": "create schema s; set search_path to s; set role pg_monitor;",
      "20260102_table.sql": "create table here (n int);",
    ]
    try await withFolder(files) { folder, pool in
      let dry = try await Migrator(pool: pool, folder: folder.path).dryRun()
      #expect(dry.count == 2)
      try await Migrator(pool: pool, folder: folder.path).apply()
      let schema = try await pool.query("select schemaname from pg_tables where tablename = 'here'")
      #expect(try schema[0].decode("schemaname", as: String.self) == "public")
    }
  }

  @Test(arguments: [
    "first.sql", "2026_first.sql", "20260101first.sql", "20260101_.sql", "202601011234567_x.sql",
  ])
  func `a migration file without a version is refused`(name: String) async throws {
    try await withFolder([name: "select 1"]) { folder, pool in
      let error = try await failure { _ = try await Migrator(pool: pool, folder: folder.path).status() }
      #expect(error?.kind == .badName)
      #expect(error?.file == name)
    }
  }

  @Test func `the migrator refuses two files of one version, a file that is not text, and a missing folder`()
    async throws
  {
    try await withFolder(["20260101_a.sql": "", "20260101_b.sql": ""]) { folder, pool in
      let duplicate = try await failure { _ = try await Migrator(pool: pool, folder: folder.path).status() }
      #expect(duplicate?.kind == .duplicateVersion)
      folder.delete("20260101_b.sql")
      try folder.write("20260101_a.sql", Data([0xFF, 0xFE]))
      let bytes = try await failure { _ = try await Migrator(pool: pool, folder: folder.path).status() }
      #expect(bytes?.kind == .notText)
      let missing = try await failure {
        _ = try await Migrator(pool: pool, folder: folder.path + "/none").status()
      }
      #expect(missing?.kind == .unreadable)
      folder.delete("20260101_a.sql")
      let empty = try await failure { _ = try await Migrator(pool: pool, folder: folder.path).status() }
      #expect(empty?.kind == .empty)
    }
  }

  @Test func `migrations run without prepared statements`() async throws {
    let folder = try MigrationsFolder(two)
    defer { folder.remove() }
    try await withPool {
      $0.usesPreparedStatements = false
    } _: { pool in
      let applied = try await Migrator(pool: pool, folder: folder.path).apply()
      #expect(applied.count == 2)
    }
  }

  @Test func `each test database that starts from migrations is a fresh copy`() async throws {
    let folder = try MigrationsFolder(two)
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
