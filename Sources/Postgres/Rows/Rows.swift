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
