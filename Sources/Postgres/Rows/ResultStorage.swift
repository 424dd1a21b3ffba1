import CLibpq
import Foundation

/// Owns one `PGresult`.
///
/// @unchecked, because libpq documents that several threads may read a `PGresult` ("Behavior in Threaded Programs"). Only
/// `deinit` changes it, after the last use.
@usableFromInline
final class ResultStorage: @unchecked Sendable {
  private let result: OpaquePointer
  let rowCount: Int
  @usableFromInline
  let columnCount: Int

  init(_ result: OpaquePointer) {
    self.result = result
    rowCount = Int(PQntuples(result))
    columnCount = Int(PQnfields(result))
  }

  deinit {
    PQclear(result)
  }

  /// The number of rows in the command tag; 0 if it has none.
  var affected: Int {
    var count = 0
    var digit = PQcmdTuples(result)
    while let character = digit?.pointee, (48...57).contains(character) {
      count = count &* 10 &+ Int(character) - 48
      digit = digit?.successor()
    }
    return count
  }

  func columnName(_ column: Int) -> String {
    PQfname(result, Int32(column)).map { String(cString: $0) } ?? ""
  }

  /// The column's index, or nil. For a few columns, a scan is faster than a dictionary.
  @usableFromInline
  func column(named name: String) -> Int? {
    name.withCString { name in
      (0..<columnCount).first { strcmp(PQfname(result, Int32($0)), name) == 0 }
    }
  }

  /// A field, or nil for NULL. Its bytes are valid while this object exists.
  @usableFromInline
  func field(row: Int, column: Int) -> PostgresField? {
    let (row, column) = (Int32(row), Int32(column))
    if PQgetisnull(result, row, column) == 1 { return nil }
    let count = Int(PQgetlength(result, row, column))
    let bytes = UnsafeRawBufferPointer(start: PQgetvalue(result, row, column), count: count)
    return PostgresField(type: PostgresType(oid: PQftype(result, column)), bytes: bytes)
  }

  /// The error for a missing column.
  @usableFromInline
  func missing(_ column: String) -> PostgresError {
    PostgresError(.decoding("the result has no column \(column)"))
  }

  /// The error for a column that cannot be decoded.
  @usableFromInline
  func unreadable(_ column: Int, _ error: FieldError) -> PostgresError {
    PostgresError(.decoding("column \"\(columnName(column))\" \(error.reason)"))
  }
}
