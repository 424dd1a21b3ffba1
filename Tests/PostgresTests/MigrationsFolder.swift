import Foundation

/// A folder of migration files for one test.
struct MigrationsFolder {
  let path = "/tmp/receiptd-migrations.\(UUID().uuidString)"

  init(_ files: [String: String]) throws {
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    for (name, sql) in files { try write(name, sql) }
  }

  func write(_ name: String, _ sql: String) throws {
    try write(name, Data(sql.utf8))
  }

  func write(_ name: String, _ contents: Data) throws {
    try contents.write(to: URL(filePath: path + "/" + name))
  }

  func delete(_ name: String) {
    try? FileManager.default.removeItem(atPath: path + "/" + name)
  }

  func remove() {
    try? FileManager.default.removeItem(atPath: path)
  }
}
