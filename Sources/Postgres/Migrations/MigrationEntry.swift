public import Foundation

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
