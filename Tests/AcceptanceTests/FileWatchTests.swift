import Foundation
import Platform
import Synchronization
import Testing

@testable import receiptd

/// The detection of changed files, with made-up file statuses.
@Suite struct FileWatchTests {
  private final class Files: Sendable {
    private let marks = Mutex<[String: FileStatus]>([:])
    subscript(path: String) -> FileStatus? {
      get { marks.withLock { $0[path] } }
      set { marks.withLock { $0[path] = newValue } }
    }
  }

  private func watched(_ paths: String...) -> (Files, FileWatch) {
    let files = Files()
    for (number, path) in paths.enumerated() { files[path] = FileStatus(inode: UInt64(number), size: 10) }
    return (files, FileWatch(paths) { files[$0] })
  }

  @Test func `the file watch does not report an unchanged file`() {
    var (_, watch) = watched("apps", "root")
    for _ in 0..<5 { #expect(watch.check() == nil) }
  }

  @Test func `the file watch reports a change once, after the file has stopped changing`() {
    var (files, watch) = watched("apps", "root")
    files["root"]?.seconds = 1
    #expect(watch.check() == nil)
    // The file is still being written.
    files["root"]?.size = 20
    #expect(watch.check() == nil)
    #expect(watch.check() == "root")
    #expect(watch.check() == nil)
  }

  @Test func `the file watch reports a removed file only if it comes back changed`() {
    var (files, watch) = watched("apps")
    let mark = files["apps"]
    files["apps"] = nil
    #expect(watch.check() == nil)
    files["apps"] = mark
    #expect(watch.check() == nil)
    #expect(watch.check() == nil)
    files["apps"] = nil
    #expect(watch.check() == nil)
    #expect(watch.check() == "apps")
  }

  @Test func `the file watch reports a symbolic link that points to another file`() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "watch-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    for name in ["first", "second"] { try Data("same".utf8).write(to: folder.appending(path: name)) }
    let link = folder.appending(path: "link")
    try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: "first")
    var watch = FileWatch([link.path])
    try FileManager.default.removeItem(at: link)
    try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: "second")
    #expect(watch.check() == nil)
    #expect(watch.check() == link.path)
  }
}
