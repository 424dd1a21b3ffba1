import Crypto
import Foundation

/// One file of the migrations folder: `<digits>_<name>.sql`.
struct MigrationFile: Sendable, Equatable {
  /// The whole name, for messages.
  let fileName: String
  /// 8 to 14 digits, a date with or without a time.
  let version: String
  /// The rest of the name without `.sql`.
  let name: String
  /// The parts of the file between the lines ``separator``, each of which is a transaction. A part has an empty line
  /// for each line before it, so that positions in it are those of the file.
  let steps: [String]
  /// SHA-256 of the file's bytes, in hexadecimal.
  let checksum: String

  /// The line between two transactions of a file.
  static let separator = "-- migrate: new transaction"

  init(fileName: String, contents: some DataProtocol) throws(MigrationError) {
    let stem = fileName.dropLast(4)
    let digits = stem.utf8.prefix { (48...57).contains($0) }
    let rest = stem.utf8.dropFirst(digits.count)
    guard (8...14).contains(digits.count), rest.first == UInt8(ascii: "_"), rest.count > 1 else {
      throw MigrationError(.badName, file: fileName)
    }
    guard let sql = String(validating: contents, as: UTF8.self), !sql.utf8.contains(0) else {
      throw MigrationError(.notText, file: fileName)
    }
    self.fileName = fileName
    version = String(stem.prefix(digits.count))
    name = String(stem.dropFirst(digits.count + 1))
    steps = Self.steps(of: sql)
    let digest = SHA256.hash(data: contents)
    checksum = digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }

  private static func steps(of sql: String) -> [String] {
    var steps = [""]
    for (number, line) in sql.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      if line == separator {
        steps.append(String(repeating: "\n", count: number + 1))
      } else {
        steps[steps.count - 1] += line + "\n"
      }
    }
    return steps
  }

  /// The `.sql` files of a folder in the order of their names, in which they are applied. Other and hidden files are
  /// ignored.
  static func read(folder: String) throws(MigrationError) -> [MigrationFile] {
    let names: [String]
    do {
      names = try FileManager.default.contentsOfDirectory(atPath: folder)
    } catch {
      throw MigrationError(.unreadable, file: folder)
    }
    var files: [MigrationFile] = []
    // Ordered by bytes, because a locale could order the names differently.
    let wanted = names.filter { $0.hasSuffix(".sql") && !$0.hasPrefix(".") }
    for name in wanted.sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
      guard let contents = FileManager.default.contents(atPath: folder + "/" + name) else {
        throw MigrationError(.unreadable, file: name)
      }
      files.append(try MigrationFile(fileName: name, contents: contents))
    }
    var seen: Set<String> = []
    for file in files where !seen.insert(file.version).inserted {
      throw MigrationError(.duplicateVersion, file: file.fileName)
    }
    if files.isEmpty { throw MigrationError(.empty, file: folder) }
    return files
  }
}
