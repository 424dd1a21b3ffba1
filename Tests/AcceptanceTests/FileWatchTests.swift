import Foundation
import Synchronization
import Testing

@testable import receiptd

/// When a changed file is noticed, with files that the test makes up.
@Suite struct FileWatchTests {
  private final class Files: Sendable {
    private let marks = Mutex<[String: FileWatch.Mark]>([:])
    subscript(path: String) -> FileWatch.Mark {
      get { marks.withLock { $0[path] ?? FileWatch.Mark() } }
      set { marks.withLock { $0[path] = newValue } }
    }
  }

  private func watched(_ paths: String...) -> (Files, FileWatch) {
    let files = Files()
    for (number, path) in paths.enumerated() { files[path] = FileWatch.Mark(inode: UInt(number), size: 10) }
    return (files, FileWatch(paths) { files[$0] })
  }

  @Test func `what stands still is nothing to tell`() {
    var (_, watch) = watched("apps", "root")
    for _ in 0..<5 { #expect(watch.look() == nil) }
  }

  @Test func `a change is told once, when it has stood still`() {
    var (files, watch) = watched("apps", "root")
    files["root"].seconds = 1
    #expect(watch.look() == nil)
    // Somebody is still writing.
    files["root"].size = 20
    #expect(watch.look() == nil)
    #expect(watch.look() == "root")
    #expect(watch.look() == nil)
  }

  @Test func `a file that is taken away and comes back as it was is no change`() {
    var (files, watch) = watched("apps")
    let mark = files["apps"]
    files["apps"] = FileWatch.Mark()
    #expect(watch.look() == nil)
    files["apps"] = mark
    #expect(watch.look() == nil)
    #expect(watch.look() == nil)
    files["apps"] = FileWatch.Mark()
    #expect(watch.look() == nil)
    #expect(watch.look() == "apps")
  }

  @Test func `a link that points to another file is a change`() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "watch-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    for name in ["first", "second"] { try Data("same".utf8).write(to: folder.appending(path: name)) }
    let link = folder.appending(path: "link")
    try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: "first")
    var watch = FileWatch([link.path])
    try FileManager.default.removeItem(at: link)
    try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: "second")
    #expect(watch.look() == nil)
    #expect(watch.look() == link.path)
  }
}
