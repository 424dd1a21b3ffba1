import CLibpq
import Foundation

/// The result of a query: its rows in order, and the number of affected rows.
public struct Rows: Sendable {
  let storage: ResultStorage

  /// The number of rows that were inserted, updated, deleted or selected.
  public var affected: Int { storage.affected }

  /// The names of the columns in order.
  public var columns: [String] { (0..<storage.columnCount).map(storage.columnName) }
}

extension Rows: RandomAccessCollection {
  /// 0
  public var startIndex: Int { 0 }

  /// The number of rows.
  public var endIndex: Int { storage.rowCount }

  /// The row at an index.
  public subscript(index: Int) -> Row {
    precondition(indices.contains(index), "row \(index) of \(count)")
    return Row(storage: storage, index: index)
  }
}

/// One row of ``Rows``.
public struct Row: Sendable {
  @usableFromInline
  let storage: ResultStorage
  @usableFromInline
  let index: Int

  init(storage: ResultStorage, index: Int) {
    self.storage = storage
    self.index = index
  }

  /// Reads the column of this name. NULL needs an optional type.
  ///
  /// - Throws: ``PostgresError`` of kind `.decoding`, which names the column.
  @inlinable
  public func decode<T: PostgresDecodable>(_ column: String, as type: T.Type = T.self) throws(PostgresError)
    -> T
  {
    guard let position = storage.column(named: column) else {
      throw storage.missing("\"\(column)\"")
    }
    return try decode(position, as: type)
  }

  /// Reads the column at this position, counted from 0.
  ///
  /// - Throws: ``PostgresError`` of kind `.decoding`, which names the column.
  @inlinable
  public func decode<T: PostgresDecodable>(_ column: Int, as type: T.Type = T.self) throws(PostgresError) -> T
  {
    guard column >= 0, column < storage.columnCount else {
      throw storage.missing("\(column)")
    }
    // The field's bytes are the storage's.
    defer { withExtendedLifetime(storage) {} }
    do throws(FieldError) {
      return try T.decode(storage.field(row: index, column: column))
    } catch {
      throw storage.unreadable(column, error)
    }
  }

}

/// Owns one `PGresult`.
///
/// @unchecked, because libpq documents that several threads may read a `PGresult` ("Behavior in Threaded Programs").
/// Only `deinit` changes it, after the last use.
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

/// A row that receiptd cannot have written.
package struct UnreadableRow: Error {
  package var column: String

  package init(column: String) { self.column = column }
}
