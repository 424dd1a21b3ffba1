import Glibc

/// Notices that a file is another one than before, by asking for its status now and then: that also sees a link that
/// points elsewhere, which is how orchestrators exchange files, and works on every file system.
struct FileWatch {
  /// What differs when a file was written or exchanged. All zeros for a file that is not there.
  struct Mark: Equatable {
    var device: UInt = 0
    var inode: UInt = 0
    var size: Int = 0
    var seconds: Int = 0
    var nanoseconds: Int = 0
  }

  private let paths: [String]
  private let read: @Sendable (String) -> Mark
  /// As they were when they were last told of, or at the start.
  private var known: [Mark]
  /// As they were at the last look.
  private var seen: [Mark]

  /// - Parameter read: how to look at a file; tests have files of their own.
  init(_ paths: [String], read: @escaping @Sendable (String) -> Mark = { Mark(of: $0) }) {
    self.paths = paths
    self.read = read
    known = paths.map(read)
    seen = known
  }

  /// Looks once.
  /// - Returns: a file that has changed, once none has changed since the last look: whoever writes is done by then.
  mutating func look() -> String? {
    let now = paths.map(read)
    defer { seen = now }
    guard now == seen, now != known else { return nil }
    let changed = zip(paths, zip(now, known)).first { $1.0 != $1.1 }?.0
    known = now
    return changed
  }
}

extension FileWatch.Mark {
  /// The status of the file that the path leads to.
  init(of path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return }
    device = UInt(status.st_dev)
    inode = UInt(status.st_ino)
    size = Int(status.st_size)
    seconds = status.st_mtim.tv_sec
    nanoseconds = status.st_mtim.tv_nsec
  }
}
