public import Logging
public import Platform

/// Applies the SQL files of a folder once each, in the order of their names. Each has a transaction of its own, which
/// also inserts its row in `schema_migrations`.
///
/// A file may be divided into several transactions by lines `-- migrate: new transaction`. The last one inserts the
/// row, so an attempt that fails runs all of them again. They share a session until it ends or a lock is not granted,
/// so a setting must be local to its transaction.
///
/// A table may be in use. Behind a lock that a migration waits for, every other statement on the table waits too. So
/// each transaction has a short `lock_timeout`, and is retried with exponential backoff when that has passed.
///
/// Several servers may migrate at the same time: each transaction first takes an advisory lock and then checks whether
/// another server has applied the file.
public struct Migrator: Sendable {
  private let pool: PostgresPool
  private let folder: String
  /// For one transaction, with the wait for another server's migration.
  private let timeout = Duration.seconds(600)
  private let lockTimeout: Duration
  private let retry: Backoff
  private let logger: Logger?
  private static let attempts = 5
  /// With the default backoff about seven minutes.
  private static let waits = 60

  /// A migrator for the files in `folder`.
  ///
  /// - Parameters:
  ///   - lockTimeout: for each lock. A transaction locks at most three tables that may be in use, so that no reader waits for a
  ///     second.
  ///   - retry: the delays before a transaction is retried whose `lock_timeout` passed (55P03).
  ///   - logger: told of each such retry.
  public init(
    pool: PostgresPool, folder: String, lockTimeout: Duration = .milliseconds(250),
    retry: Backoff = Backoff(base: .seconds(1), maximum: .seconds(8), jitter: 0.25), logger: Logger? = nil
  ) {
    self.lockTimeout = lockTimeout
    self.retry = retry
    self.logger = logger
    self.pool = pool
    self.folder = folder
  }

  /// All migrations with a file or a row: the files in order, then the rows without a file. Changes nothing.
  ///
  /// - Throws: ``MigrationError`` if the files cannot be read; ``PostgresError``.
  public func status() async throws -> [MigrationEntry] {
    let files = try MigrationFile.read(folder: folder)
    return try await pool.withConnection { connection in
      let rows = try await MigrationTable.find(connection)?.applied(connection) ?? []
      return MigrationEntry.compare(files, rows)
    }
  }

  /// The migrations that ``apply()`` would run.
  public func pending() async throws -> [MigrationEntry] {
    try await status().filter { $0.state == .pending }
  }

  /// Runs the pending files. Rows later than all files are no error: a newer version may have migrated this database.
  ///
  /// - Returns: the files that this call applied; other servers may have applied some at the same time.
  /// - Throws: ``MigrationError`` of kind `.changed` or `.removed` before any file is run, if an applied file was
  ///   edited or is missing; of kind `.failed` for the first file that fails. The files before it stay applied.
  @discardableResult
  public func apply() async throws -> [MigrationEntry] {
    let files = try await filesToRun()
    if files.isEmpty { return [] }
    let table = try await pool.withConnection { connection in try await openTable(connection) }
    var applied: [MigrationEntry] = []
    for file in files {
      if let entry = try await apply(file, table) { applied.append(entry) }
    }
    return applied
  }

  /// Runs the transactions of one file on one connection. After a deadlock with servers of the previous version, after
  /// the `lock_timeout`, or when the session ended between two transactions, the failed one runs again on a new
  /// connection.
  ///
  /// - Returns: nil if another server has applied it.
  private func apply(_ file: MigrationFile, _ table: MigrationTable) async throws -> MigrationEntry? {
    var step = 0
    var attempts = 1
    var retry = retry
    while true {
      let first = step
      do {
        return try await withScriptConnection { connection in
          while step < file.steps.count - 1 {
            let isPending = try await inTransaction(connection) { connection in
              try await run(file.steps[step], of: file, table, connection)
            }
            guard isPending else { return nil }
            step += 1
            attempts = 1
            retry = self.retry
          }
          return try await inTransaction(connection) { try await finish(file, table, $0) }
        }
      } catch let error as PostgresError where error.isRetryable && attempts < Self.attempts {
        attempts += 1
      } catch let error as PostgresError where error.isSafeToRepeat && step > first {
        // The pool repeats this itself where nothing was committed on the connection.
      } catch let error as MigrationError where error.isLockTimeout && retry.failures < Self.waits {
        logger?.notice(
          "a migration waits for a table that another transaction uses, and tries again",
          metadata: ["file": "\(file.fileName)", "attempt": "\(retry.failures + 1)"])
        try await Task.sleep(for: retry.failed())
      }
    }
  }

  /// Runs `body` in a transaction that holds the lock of migrations.
  private func inTransaction<R: Sendable>(
    _ connection: PostgresConnection,
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    try await connection.transaction { connection in
      try await takeLock(connection)
      return try await body(connection)
    }
  }

  /// Runs what is pending in one transaction and rolls it back.
  ///
  /// - Returns: what would be applied.
  /// - Throws: as ``apply()`` does, for the first file that fails.
  public func dryRun() async throws -> [MigrationEntry] {
    struct EndOfDryRun: Error {
      let entries: [MigrationEntry]
    }
    let files = try await filesToRun()
    if files.isEmpty { return [] }
    do {
      try await withScriptConnection { connection in
        try await connection.transaction { connection in
          try await takeLock(connection)
          let table = try await foundOrNewTable(connection)
          var entries: [MigrationEntry] = []
          for file in files {
            for step in file.steps.dropLast() { _ = try await run(step, of: file, table, connection) }
            guard let entry = try await finish(file, table, connection) else { continue }
            entries.append(MigrationEntry(version: entry.version, name: entry.name, state: .pending))
            // Each file starts with the default settings.
            try await connection.execute(script: "reset all")
          }
          throw EndOfDryRun(entries: entries)
        }
      }
      return []
    } catch let end as EndOfDryRun {
      return end.entries
    }
  }

  /// The pending files, after a check that no applied file was edited or is missing.
  private func filesToRun() async throws -> [MigrationFile] {
    let files = try MigrationFile.read(folder: folder)
    let entries = try await status()
    for entry in entries {
      if case .removed = entry.state {
        throw MigrationError(.removed, file: "\(entry.version)_\(entry.name).sql")
      }
    }
    for (file, entry) in zip(files, entries) {
      if case .changed = entry.state { throw MigrationError(.changed, file: file.fileName) }
    }
    return zip(files, entries).filter { $1.state == .pending }.map(\.0)
  }

  /// The table of applied migrations, created if it does not exist.
  private func openTable(_ connection: PostgresConnection) async throws -> MigrationTable {
    if let table = try await MigrationTable.find(connection) { return table }
    return try await connection.transaction { connection in
      try await takeLock(connection)
      return try await foundOrNewTable(connection)
    }
  }

  private func foundOrNewTable(_ connection: PostgresConnection) async throws -> MigrationTable {
    if let table = try await MigrationTable.find(connection) { return table }
    return try await MigrationTable.create(connection)
  }

  /// Runs `body` with a connection that is closed afterwards, because a script may change its settings.
  private func withScriptConnection<R: Sendable>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    try await pool.withConnection { connection in
      connection.pipelined.retire()
      return try await body(connection)
    }
  }

  private func takeLock(_ connection: PostgresConnection) async throws {
    try await connection.run(.queries([MigrationTable.lock]), timeout: timeout)
  }

  /// Runs a step of a file in the open transaction, which holds the lock.
  ///
  /// - Returns: false if another server has applied the file.
  private func run(
    _ step: String, of file: MigrationFile, _ table: MigrationTable, _ connection: PostgresConnection
  ) async throws -> Bool {
    if let checksum = try await table.checksum(of: file.version, connection) {
      guard checksum == file.checksum else { throw MigrationError(.changed, file: file.fileName) }
      return false
    }
    // A setting that is local to the transaction shows afterwards whether the file has ended it.
    _ = try await connection.query(
      """
      select set_config('migration.version', \(file.version), true),
        set_config('lock_timeout', \("\(Int(lockTimeout / .milliseconds(1)))ms"), true),
        -- A migration may compare PostgreSQL's text of a definition.
        set_config('quote_all_identifiers', 'off', true)
      """)
    do {
      try await connection.execute(script: step, timeout: timeout)
    } catch let error as PostgresError {
      guard let report = error.refusal else { throw error }
      throw MigrationError(report, in: step, of: file)
    }
    let mark = try await connection.query("select current_setting('migration.version', true) as version")
    guard try mark.first?.decode("version", as: String?.self) == file.version else {
      throw MigrationError(.endsTransaction, file: file.fileName)
    }
    return true
  }

  /// Runs the last step of a file and records the file, in the open transaction, which holds the lock.
  ///
  /// - Returns: nil if another server has applied it.
  private func finish(
    _ file: MigrationFile, _ table: MigrationTable, _ connection: PostgresConnection
  ) async throws -> MigrationEntry? {
    guard try await run(file.steps.last ?? "", of: file, table, connection) else { return nil }
    // The file may have changed the role.
    _ = try await connection.query("reset role")
    do {
      let date = try await table.insert(file, connection)
      return MigrationEntry(version: file.version, name: file.name, state: .applied(date))
    } catch let error as PostgresError {
      // The role may lack privileges on schema_migrations.
      guard let report = error.refusal else { throw error }
      throw MigrationError(.failed, file: file.fileName, report: report)
    }
  }
}

extension PostgresError {
  /// The server's report, if it refused the statement itself.
  fileprivate var refusal: ServerReport? { isRetryable || isUnavailable ? nil : report }
}
