import Foundation
import Platform
import Postgres
import TestDatabase
import Testing

/// Migration files that the migrator refuses.
struct MigrationFileTests {
  @Test func `a missing file before an applied one is refused before any migration runs`()
    async throws
  {
    try await withMigrations(twoMigrations) { folder, pool in
      let migrator = Migrator(pool: pool, folder: folder.path)
      try await migrator.apply()
      folder.delete("20260102_second.sql")
      try folder.write("20260103_third.sql", "create table c (n int);")
      guard case .removed = try await migrator.status().last?.state else {
        Issue.record("the missing file is not reported")
        return
      }
      for error in [
        try await migrationFailure { try await migrator.apply() },
        try await migrationFailure { _ = try await migrator.dryRun() },
      ] {
        #expect(error?.kind == .removed)
        #expect(error?.file == "20260102_second.sql")
        #expect(error?.description.contains("before the migrations were folded") == true)
      }
      let found = try await pool.query("select to_regclass('c') is null as missing")
      #expect(try found[0].decode("missing", as: Bool.self))
    }
  }

  @Test func `a migration that ends its transaction is refused`() async throws {
    try await withMigrations(["20260101_commits.sql": "create table a (n int); commit; begin;"]) {
      folder, pool in
      let error = try await migrationFailure { try await Migrator(pool: pool, folder: folder.path).apply() }
      #expect(error?.kind == .endsTransaction)
    }
  }

  @Test(arguments: [
    "first.sql", "2026_first.sql", "20260101first.sql", "20260101_.sql", "202601011234567_x.sql",
  ])
  func `a migration file without a version is refused`(name: String) async throws {
    try await withMigrations([name: "select 1"]) { folder, pool in
      let error = try await migrationFailure {
        _ = try await Migrator(pool: pool, folder: folder.path).status()
      }
      #expect(error?.kind == .badName)
      #expect(error?.file == name)
    }
  }

  @Test func `the migrator refuses two files of one version, a file that is not text, and a missing folder`()
    async throws
  {
    try await withMigrations(["20260101_a.sql": "", "20260101_b.sql": ""]) { folder, pool in
      let duplicate = try await migrationFailure {
        _ = try await Migrator(pool: pool, folder: folder.path).status()
      }
      #expect(duplicate?.kind == .duplicateVersion)
      folder.delete("20260101_b.sql")
      try folder.write("20260101_a.sql", Data([0xFF, 0xFE]))
      let bytes = try await migrationFailure {
        _ = try await Migrator(pool: pool, folder: folder.path).status()
      }
      #expect(bytes?.kind == .notText)
      let missing = try await migrationFailure {
        _ = try await Migrator(pool: pool, folder: folder.path + "/none").status()
      }
      #expect(missing?.kind == .unreadable)
      folder.delete("20260101_a.sql")
      let empty = try await migrationFailure {
        _ = try await Migrator(pool: pool, folder: folder.path).status()
      }
      #expect(empty?.kind == .empty)
    }
  }
}
