/// Applies the plain SQL files of a folder, each once, in the order of their names, each in a
/// transaction of its own together with its row in `schema_migrations`.
///
/// Any number of servers may do so at once: every one of these transactions takes the same advisory
/// lock first and then looks whether somebody else has applied the file meanwhile.
public struct Migrator: Sendable {
  private let pool: PostgresPool
  private let folder: String
  private let timeout: Duration
  private let pause: Duration
  private static let attempts = 5
  private static let waits = 120

  /// A migrator for the files in `folder`.
  ///
  /// - Parameters:
  ///   - timeout: for one file, the wait for another server's migration included.
  ///   - pause: before a file that gave up waiting for a lock (55P03) is tried again.
  public init(
    pool: PostgresPool, folder: String, timeout: Duration = .seconds(600), pause: Duration = .seconds(2)
  ) {
    self.pause = pause
    self.pool = pool
    self.folder = folder
    self.timeout = timeout
  }

  /// Every migration that there is a file or a row for: first the files in order, then the rows
  /// whose file is unknown here. Changes nothing.
  ///
  /// - Throws: ``MigrationError`` when the files cannot be read; ``PostgresError``.
  public func status() async throws -> [MigrationEntry] {
    let files = try MigrationFile.read(folder: folder)
    return try await pool.withConnection { connection in
      let table = try await MigrationTable.find(connection)
      let rows = try await table.exists(connection) ? table.applied(connection) : []
      return MigrationEntry.compare(files, rows)
    }
  }

  /// The migrations that ``apply()`` would run.
  public func pending() async throws -> [MigrationEntry] {
    try await status().filter { $0.state == .pending }
  }

  /// Runs what is pending. Rows without a file are no error: a newer server may have run here.
  ///
  /// - Returns: what this call applied; others may have applied some at the same time.
  /// - Throws: ``MigrationError`` of kind `.changed` before anything is run if an applied file was
  ///   edited, of kind `.failed` for the first file that fails: those before it stay applied.
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

  /// Runs one file; again where it lost a deadlock against the servers of the version before, who go on working and
  /// take the same tables in an order of their own, or where it waits no longer than it said for a table that
  /// somebody reads or copies, lest all others wait behind it.
  private func apply(_ file: MigrationFile, _ table: MigrationTable) async throws -> MigrationEntry? {
    var (attempts, waits) = (1, 0)
    while true {
      do {
        return try await withScriptConnection { connection in
          try await connection.transaction { connection -> MigrationEntry? in
            try await takeLock(connection)
            return try await run(file, table, connection)
          }
        }
      } catch let error as PostgresError where error.isRetryable && attempts < Self.attempts {
        attempts += 1
      } catch let error as MigrationError where error.isLockTimeout && waits < Self.waits {
        waits += 1
        try await Task.sleep(for: pause)
      }
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
        let table = try await MigrationTable.find(connection)
        try await connection.transaction { connection in
          try await takeLock(connection)
          try await table.create(connection)
          var entries: [MigrationEntry] = []
          for file in files {
            guard let entry = try await run(file, table, connection) else { continue }
            entries.append(MigrationEntry(version: entry.version, name: entry.name, state: .pending))
            // The next one must not see this one's settings, as it would not on its own.
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

  /// The pending files, once it is sure that no applied one was edited.
  private func filesToRun() async throws -> [MigrationFile] {
    let files = try MigrationFile.read(folder: folder)
    let entries = try await status()
    for (file, entry) in zip(files, entries) {
      if case .changed = entry.state { throw MigrationError(.changed, file: file.fileName) }
    }
    return zip(files, entries).filter { $1.state == .pending }.map(\.0)
  }

  /// The table of what was applied, made if it is not there.
  private func openTable(_ connection: PostgresConnection) async throws -> MigrationTable {
    let table = try await MigrationTable.find(connection)
    if try await !table.exists(connection) {
      try await connection.transaction { connection in
        try await takeLock(connection)
        try await table.create(connection)
      }
    }
    return table
  }

  /// A connection for one script, which may leave settings behind: nobody else gets it afterwards.
  private func withScriptConnection<R: Sendable>(
    _ body: nonisolated(nonsending) (PostgresConnection) async throws -> R
  ) async throws -> R {
    try await pool.withConnection { connection in
      connection.channel.retire()
      return try await body(connection)
    }
  }

  private func takeLock(_ connection: PostgresConnection) async throws {
    try await connection.run(.queries([MigrationTable.lock]), timeout: timeout)
  }

  /// Runs a file in the transaction that is open and holds the lock.
  ///
  /// - Returns: nil if somebody else had applied it.
  private func run(
    _ file: MigrationFile, _ table: MigrationTable, _ connection: PostgresConnection
  ) async throws -> MigrationEntry? {
    if let checksum = try await table.checksum(of: file.version, connection) {
      guard checksum == file.checksum else { throw MigrationError(.changed, file: file.fileName) }
      return nil
    }
    // A setting that ends with the transaction shows whether it is still the same one afterwards.
    _ = try await connection.query("select set_config('migration.version', \(file.version), true)")
    do {
      try await connection.execute(script: file.sql, timeout: timeout)
    } catch let error as PostgresError {
      guard let report = error.refusal else { throw error }
      throw MigrationError(report, in: file)
    }
    let mark = try await connection.query("select current_setting('migration.version', true) as version")
    guard try mark.first?.decode("version", as: String?.self) == file.version else {
      throw MigrationError(.endsTransaction, file: file.fileName)
    }
    // The row is written by whoever migrates, also if the file took another role.
    _ = try await connection.query("reset role")
    do {
      let date = try await table.insert(file, connection)
      return MigrationEntry(version: file.version, name: file.name, state: .applied(date))
    } catch let error as PostgresError {
      // A role may be allowed what the file does, and not to say that it was done.
      guard let report = error.refusal else { throw error }
      throw MigrationError(.failed, file: file.fileName, report: report)
    }
  }
}

extension PostgresError {
  /// What the server has against the statement itself, if that is the trouble.
  fileprivate var refusal: ServerReport? { isRetryable || isUnavailable ? nil : report }
}
