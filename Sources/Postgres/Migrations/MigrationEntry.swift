public import FoundationEssentials

/// A migration as ``Migrator/status()`` sees it.
public struct MigrationEntry: Sendable, Equatable {
  /// Where a migration stands.
  public enum State: Sendable, Equatable {
    /// Not applied yet.
    case pending
    /// Applied, from the same file.
    case applied(Date)
    /// Applied, and there is no such file: a newer server ran here.
    case unknown(Date)
    /// Applied from a file that has been edited since.
    case changed(Date)
  }

  /// The digits that the file's name starts with.
  public let version: String
  /// What follows the digits, without `.sql`.
  public let name: String
  /// Where it stands.
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
    let others = rows.filter { !known.contains($0.version) }.map { row in
      MigrationEntry(version: row.version, name: row.name, state: .unknown(row.appliedAt))
    }
    return entries + others
  }
}
