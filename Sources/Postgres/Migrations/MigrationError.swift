/// An error of reading or applying a migration file.
public struct MigrationError: Error, Sendable {
  /// The kinds of errors.
  public enum Kind: Sendable, Equatable {
    /// The folder or the file cannot be read.
    case unreadable
    /// The folder has no migrations, so the path is probably wrong.
    case empty
    /// The name is not `<8 to 14 digits>_<name>.sql`.
    case badName
    /// Two files start with the same digits.
    case duplicateVersion
    /// The file is not UTF-8.
    case notText
    /// The applied file was edited afterwards.
    case changed
    /// An applied file is missing although there are later files.
    case removed
    /// The file ends the transaction in which it runs.
    case endsTransaction
    /// The server refused the file.
    case failed
  }

  /// The kind of the error.
  public let kind: Kind
  /// The file or the folder.
  public let file: String
  /// The line of the file with the error, from 1, if the server reported it.
  public let line: Int?
  /// The server's report.
  public let report: ServerReport?

  init(_ kind: Kind, file: String, line: Int? = nil, report: ServerReport? = nil) {
    self.kind = kind
    self.file = file
    self.line = line
    self.report = report
  }

  /// The server refused a step of the file.
  init(_ report: ServerReport, in step: String, of file: MigrationFile) {
    self.init(
      .failed, file: file.fileName, line: report.position.map { Self.line(of: $0, in: step) }, report: report)
  }

  /// Whether the `lock_timeout` passed (55P03).
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
    case .empty: "\(file) has no migrations"
    case .badName: "\(file) is not named like 20260119_what_it_does.sql"
    case .duplicateVersion: "\(file) has the version of another migration"
    case .notText: "\(file) is not UTF-8 text"
    case .changed:
      "\(file) was edited after it was applied; put the change into a new migration"
    case .removed:
      """
      \(file) was applied and its file is missing: a version from before the migrations were folded made this database; \
      dump its data and restore it into a new database, or start with an empty one
      """
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
    if isLockTimeout {
      text +=
        "; another transaction uses the table for longer than the retries: end it (see pg_stat_activity), and migrate again"
    }
    return text
  }
}
