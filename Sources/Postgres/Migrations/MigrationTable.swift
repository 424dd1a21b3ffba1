import Foundation

/// The SQL of `schema_migrations`, the table of applied migrations.
///
/// The table is in the connection's current schema. Its name is qualified, because a migration may change `search_path`.
struct MigrationTable {
  /// A row.
  struct Applied: Sendable {
    let version: String
    let name: String
    let checksum: String
    let appliedAt: Date
  }

  /// `"schema".schema_migrations`
  private let table: String

  init(schema: String) {
    table = "\"\(schema.replacing("\"", with: "\"\""))\".schema_migrations"
  }

  static func find(_ connection: PostgresConnection) async throws -> MigrationTable {
    let rows = try await connection.query("select current_schema() as schema")
    return MigrationTable(schema: try rows.first?.decode("schema", as: String?.self) ?? "public")
  }

  /// A lock of the transaction: a pooler in transaction mode would pass a session's lock to another client. The number is
  /// "migrate" in ASCII; `AdvisoryLock` lists it with all other keys.
  static let lock: Query = "select pg_advisory_xact_lock(30796665482998885)"

  func exists(_ connection: PostgresConnection) async throws -> Bool {
    let rows = try await connection.query("select to_regclass(\(table)) is not null as found")
    return try rows.first?.decode("found") ?? false
  }

  func create(_ connection: PostgresConnection) async throws {
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
  }

  func applied(_ connection: PostgresConnection) async throws -> [Applied] {
    try await connection.query(
      "select version, name, checksum, applied_at from \(unescaped: table) order by version, name"
    ).map { row in
      Applied(
        version: try row.decode("version"), name: try row.decode("name"),
        checksum: try row.decode("checksum"), appliedAt: try row.decode("applied_at"))
    }
  }

  /// The checksum with which a version was applied, or nil.
  func checksum(of version: String, _ connection: PostgresConnection) async throws -> String? {
    try await connection.query(
      "select checksum from \(unescaped: table) where version = \(version)"
    ).first?.decode("checksum")
  }

  /// Records an applied file.
  ///
  /// - Returns: when its transaction began.
  func insert(_ file: MigrationFile, _ connection: PostgresConnection) async throws -> Date {
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
