import Crypto
import Foundation
import Testing

/// The migrations that `migrations/released` names never change.
@Suite struct ReleasedMigrationTests {
  /// The lines of a list that the folder does not agree with.
  private static func differences(list: String, folder: String) -> [String] {
    var released: [String] = []
    var found: [String] = []
    for line in list.split(separator: "\n") where !line.hasPrefix("#") {
      guard let entry = line.wholeMatch(of: /([0-9a-f]{64})  ([0-9a-z_]+\.sql)/) else {
        found.append("\(line): is not a SHA-256 and a name")
        continue
      }
      let name = String(entry.output.2)
      if let last = released.last, last >= name { found.append("\(name): stands after \(last)") }
      released.append(name)
      guard let contents = FileManager.default.contents(atPath: folder + "/" + name) else {
        found.append("\(name): was released and is gone")
        continue
      }
      let digest = SHA256.hash(data: contents).map { String(format: "%02x", $0) }.joined()
      if digest != entry.output.1 {
        found.append("\(name): was released and has changed; write a new migration")
      }
    }
    // A file that sorts before a released one would run too late on a database that has the release.
    let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    if let last = released.max() {
      for name in files.sorted() where name.hasSuffix(".sql") && name < last && !released.contains(name) {
        found.append("\(name): stands before the released \(last); give it a later number")
      }
    }
    return found
  }

  @Test func `no released migration has changed`() throws {
    let list = try String(contentsOfFile: Harness.migrations + "/released", encoding: .utf8)
    #expect(Self.differences(list: list, folder: Harness.migrations) == [])
  }

  @Test func `a changed, a missing and an inserted migration are found`() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "released-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    func write(_ text: String, _ name: String) throws {
      try Data(text.utf8).write(to: folder.appending(path: name))
    }
    func hash(_ text: String) -> String {
      SHA256.hash(data: Data(text.utf8)).map { String(format: "%02x", $0) }.joined()
    }
    try write("SELECT 1", "1_a.sql")
    try write("SELECT 2", "3_b.sql")
    let list = "# 0.1.0\n\(hash("SELECT 1"))  1_a.sql\n\(hash("SELECT 2"))  3_b.sql\n"
    #expect(Self.differences(list: list, folder: folder.path) == [])
    try write("SELECT 3", "4_new.sql")
    #expect(Self.differences(list: list, folder: folder.path) == [])

    try write("SELECT 5", "2_inserted.sql")
    #expect(
      Self.differences(list: list, folder: folder.path) == [
        "2_inserted.sql: stands before the released 3_b.sql; give it a later number"
      ])
    try FileManager.default.removeItem(at: folder.appending(path: "2_inserted.sql"))
    try write("SELECT 1 ", "1_a.sql")
    try FileManager.default.removeItem(at: folder.appending(path: "3_b.sql"))
    #expect(
      Self.differences(list: list, folder: folder.path) == [
        "1_a.sql: was released and has changed; write a new migration", "3_b.sql: was released and is gone",
      ])
    #expect(
      Self.differences(list: "1_a.sql\n", folder: folder.path) == ["1_a.sql: is not a SHA-256 and a name"])
  }
}
