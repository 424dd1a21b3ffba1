/// Why the migrations cannot be read or applied; names the file.
public struct MigrationError: Error, Sendable {
  /// What is wrong.
  public enum Kind: Sendable, Equatable {
    /// The folder or the file cannot be read.
    case unreadable
    /// The folder has no migrations: surely not the one that was meant.
    case empty
    /// The name is not `<8 to 14 digits>_<name>.sql`.
    case badName
    /// Two files start with the same digits.
    case duplicateVersion
    /// The file is not UTF-8.
    case notText
    /// It was applied, and has been edited since.
    case changed
    /// It ends the transaction that it runs in.
    case endsTransaction
    /// The server refused it.
    case failed
  }

  /// What is wrong.
  public let kind: Kind
  /// The file, or the folder if it is that.
  public let file: String
  /// The line of the file at which the server stopped, from 1, where it said so.
  public let line: Int?
  /// What the server said.
  public let report: ServerReport?

  init(_ kind: Kind, file: String, line: Int? = nil, report: ServerReport? = nil) {
    self.kind = kind
    self.file = file
    self.line = line
    self.report = report
  }

  /// The server refused the file.
  init(_ report: ServerReport, in file: MigrationFile) {
    self.init(
      .failed, file: file.fileName, line: report.position.map { Self.line(of: $0, in: file.sql) },
      report: report)
  }

  /// It waited no longer than it said for a lock (55P03).
  var isLockTimeout: Bool { report?.sqlState == "55P03" }

  /// The line of a position, which PostgreSQL counts in characters (Unicode scalars) from 1.
  static func line(of position: Int, in sql: String) -> Int {
    1 + sql.unicodeScalars.prefix(max(0, position - 1)).count { $0 == "\n" }
  }
}

extension MigrationError: CustomStringConvertible {
  /// A sentence for the operator.
  public var description: String {
    switch kind {
    case .unreadable: "\(file) cannot be read"
    case .empty: "\(file) has no migrations in it"
    case .badName: "\(file) is not named like 20260119_what_it_does.sql"
    case .duplicateVersion: "\(file) has the version of another migration"
    case .notText: "\(file) is not UTF-8 text"
    case .changed:
      "\(file) was applied already and has been changed since; put the change into a new migration"
    case .endsTransaction: "\(file) ends its transaction: remove COMMIT and ROLLBACK from it"
    case .failed: failure
    }
  }

  private var failure: String {
    var text = file
    if let line { text += ", line \(line)" }
    guard let report else { return text + " failed" }
    text += ": \(report.message) (\(report.sqlState))"
    if let detail = report.detail { text += "; \(detail)" }
    if let hint = report.hint { text += "; \(hint)" }
    return text
  }
}
