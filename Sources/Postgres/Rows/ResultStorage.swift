import CLibpq
import Glibc

/// Owns one `PGresult`.
///
/// @unchecked, because the compiler cannot know what libpq documents: a `PGresult` is read-only once
/// `PQgetResult` has returned it and may be read from several threads ("Behavior in Threaded
/// Programs"); only `deinit`, which runs once and after the last use, changes it.
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

  /// Rows inserted, updated, deleted, selected and so on, from the command tag; 0 where it has none.
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

  /// The column's index, or nil. A scan beats a dictionary for the few columns that a row has.
  @usableFromInline
  func column(named name: String) -> Int? {
    name.withCString { name in
      (0..<columnCount).first { strcmp(PQfname(result, Int32($0)), name) == 0 }
    }
  }

  /// A field, or nil for NULL. Its bytes are this object's: whoever reads them holds it meanwhile.
  @usableFromInline
  func field(row: Int, column: Int) -> PostgresField? {
    let (row, column) = (Int32(row), Int32(column))
    if PQgetisnull(result, row, column) == 1 { return nil }
    let count = Int(PQgetlength(result, row, column))
    let bytes = UnsafeRawBufferPointer(start: PQgetvalue(result, row, column), count: count)
    return PostgresField(type: PostgresType(oid: PQftype(result, column)), bytes: bytes)
  }

  /// The error of somebody who asked for a column that is not there.
  @usableFromInline
  func missing(_ column: String) -> PostgresError {
    PostgresError(.decoding("there is no column \(column) in the answer"))
  }

  /// The error of somebody who asked for a column as something that it is not.
  @usableFromInline
  func unreadable(_ column: Int, _ error: FieldError) -> PostgresError {
    PostgresError(.decoding("column \"\(columnName(column))\" \(error.reason)"))
  }
}
