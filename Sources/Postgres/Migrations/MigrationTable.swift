public import Foundation

/// The SQL of `schema_migrations`, the table of applied migrations.
///
/// A migration may change `search_path` or move the table to another schema, so it is known by its OID.
struct MigrationTable {
  /// A row.
  struct Applied: Sendable {
    let version: String
    let name: String
    let checksum: String
    let appliedAt: Date
  }

  private let oid: Int64

  /// The table in the first schema of `search_path` that has one, or nil.
  static func find(_ connection: PostgresConnection) async throws -> MigrationTable? {
    let rows = try await connection.query("select to_regclass('schema_migrations')::oid::bigint as oid")
    return try rows.first?.decode("oid", as: Int64?.self).map(MigrationTable.init)
  }

  /// A lock of the transaction: a pooler in transaction mode would pass a session's lock to another client. The number
  /// is "migrate" in ASCII; `AdvisoryLock` lists it with all other keys.
  static let lock: Query = "select pg_advisory_xact_lock(30796665482998885)"

  /// Makes the table in the last schema of `search_path`, which is `public` by default: the first migrations may find
  /// one for later ones.
  static func create(_ connection: PostgresConnection) async throws -> MigrationTable {
    let rows = try await connection.query(
      "select quote_ident((current_schemas(false))[array_upper(current_schemas(false), 1)]) as schema")
    let table = "\(try rows.first?.decode("schema", as: String?.self) ?? "public").schema_migrations"
    try await connection.execute(
      script: """
        create table if not exists \(table) (
          version text primary key,
          name text not null,
          checksum text not null,
          applied_at timestamptz not null default now(),
          duration_ms integer not null
        );
        comment on table \(table) is 'The migrations that were applied to this database, one row each.';
        comment on column \(table).version is 'The digits that the file''s name starts with.';
        comment on column \(table).name is 'The rest of the file''s name.';
        comment on column \(table).checksum is 'SHA-256 of the file, in hexadecimal. An applied file must not be edited.';
        comment on column \(table).applied_at is 'When its last transaction began.';
        comment on column \(table).duration_ms is 'How long its last transaction took, in milliseconds.';
        """)
    guard let made = try await find(connection) else {
      throw PostgresError(.misuse("schema_migrations is not in search_path"))
    }
    return made
  }

  /// The name of the table, with its schema.
  private func name(_ connection: PostgresConnection) async throws -> String {
    let rows = try await connection.query(
      """
      select pg_catalog.format('%I.%I', n.nspname, c.relname) as name
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = \(oid)::bigint::oid
      """)
    guard let row = rows.first else { throw PostgresError(.misuse("schema_migrations was dropped")) }
    return try row.decode("name")
  }

  func applied(_ connection: PostgresConnection) async throws -> [Applied] {
    let table = try await name(connection)
    return try await connection.query(
      "select version, name, checksum, applied_at from \(unescaped: table) order by version, name"
    ).map { row in
      Applied(
        version: try row.decode("version"), name: try row.decode("name"),
        checksum: try row.decode("checksum"), appliedAt: try row.decode("applied_at"))
    }
  }

  /// The checksum with which a version was applied, or nil.
  func checksum(of version: String, _ connection: PostgresConnection) async throws -> String? {
    let table = try await name(connection)
    return try await connection.query(
      "select checksum from \(unescaped: table) where version = \(version)"
    ).first?.decode("checksum")
  }

  /// Records an applied file.
  ///
  /// - Returns: when its transaction began.
  func insert(_ file: MigrationFile, _ connection: PostgresConnection) async throws -> Date {
    let table = try await name(connection)
    let rows = try await connection.query(
      """
      insert into \(unescaped: table) (version, name, checksum, duration_ms)
      values (\(file.version), \(file.name), \(file.checksum),
        extract(epoch from clock_timestamp() - now()) * 1000)
      returning applied_at
      """)
    guard let row = rows.first else { throw PostgresError(.misuse("schema_migrations returned no row")) }
    return try row.decode("applied_at")
  }
}

/// A migration in the result of ``Migrator/status()``.
public struct MigrationEntry: Sendable, Equatable {
  /// The state of a migration.
  public enum State: Sendable, Equatable {
    /// Not applied yet.
    case pending
    /// Applied, from the same file.
    case applied(Date)
    /// Applied, and all files are older: a newer version of the server has migrated this database.
    case unknown(Date)
    /// Applied, and its file is missing although there are later files: the migrations were squashed.
    case removed(Date)
    /// Applied, and its file was edited afterwards.
    case changed(Date)
  }

  /// The digits at the start of the file's name.
  public let version: String
  /// The rest of the file's name without `.sql`.
  public let name: String
  /// The state.
  public let state: State

  /// Compares the files with the rows, in the order of the files; rows without a file come last.
  static func compare(
    _ files: [MigrationFile], _ rows: [MigrationTable.Applied]
  ) -> [MigrationEntry] {
    let applied = Dictionary(rows.map { ($0.version, $0) }) { first, _ in first }
    let known = Set(files.map(\.version))
    let entries = files.map { file in
      guard let row = applied[file.version] else {
        return MigrationEntry(version: file.version, name: file.name, state: .pending)
      }
      let isSame = row.checksum == file.checksum
      return MigrationEntry(
        version: file.version, name: file.name,
        state: isSame ? .applied(row.appliedAt) : .changed(row.appliedAt))
    }
    let last = files.last?.version ?? ""
    let others = rows.filter { !known.contains($0.version) }.map { row in
      MigrationEntry(
        version: row.version, name: row.name,
        state: row.version > last ? .unknown(row.appliedAt) : .removed(row.appliedAt))
    }
    return entries + others
  }
}
