import Platform

/// Detects changed files by their status. That works on every file system, and for symbolic links, by which orchestrators
/// replace files.
struct FileWatch {
  private let paths: [String]
  private let read: @Sendable (String) -> FileStatus?
  /// The status at the last report, or at the start.
  private var known: [FileStatus?]
  /// The status at the last check.
  private var seen: [FileStatus?]

  /// - Parameter read: reads a file's status; tests pass their own.
  init(_ paths: [String], read: @escaping @Sendable (String) -> FileStatus? = { Platform.fileStatus($0) }) {
    self.paths = paths
    self.read = read
    known = paths.map(read)
    seen = known
  }

  /// Checks once.
  /// - Returns: a changed file, once no file has changed since the last check: its writer has finished then.
  mutating func check() -> String? {
    let now = paths.map(read)
    defer { seen = now }
    guard now == seen, now != known else { return nil }
    let changed = zip(paths, zip(now, known)).first { $1.0 != $1.1 }?.0
    known = now
    return changed
  }
}
