/// The rows of a CSV file (RFC 4180), by the names in its first line.
package struct CSVTable: Sendable {
  /// A row with the number of its first line.
  package struct Row: Sendable {
    package var line: Int
    fileprivate var values: [String: String]

    /// The value of a column without surrounding spaces; `nil` if it is empty or missing.
    package subscript(column: String) -> String? { values[column].flatMap { $0.isEmpty ? nil : $0 } }
  }

  package let columns: [String]
  package let rows: [Row]

  /// - Throws: ``CSVProblem`` for a file without a header, an open quote, or a row with another number of values.
  package init(_ text: String) throws(CSVProblem) {
    var records = try Self.records(of: text)
    guard !records.isEmpty else { throw CSVProblem(line: 1, "the file is empty") }
    let header = records.removeFirst()
    let columns = header.values.map { $0.lowercased() }
    var rows: [Row] = []
    for record in records {
      guard record.values.count == columns.count else {
        throw CSVProblem(
          line: record.line, "\(record.values.count) values, but the header has \(columns.count)")
      }
      rows.append(
        Row(
          line: record.line,
          values: Dictionary(zip(columns, record.values), uniquingKeysWith: { first, _ in first })))
    }
    self.columns = columns
    self.rows = rows
  }

  /// Splits by bytes: `"\r\n"` is one Character.
  private static func records(of text: String) throws(CSVProblem) -> [(line: Int, values: [String])] {
    var bytes = Array(text.utf8)[...]
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes = bytes.dropFirst(3) }
    var records: [(line: Int, values: [String])] = []
    var values: [String] = []
    var value: [UInt8] = []
    var (line, firstLine) = (1, 1)
    var isQuoted = false
    var openQuote = 0
    func trimmed() -> String {
      let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
      let core = value.drop(while: isSpace).reversed().drop(while: isSpace).reversed()
      return String(decoding: Array(core), as: UTF8.self)
    }
    func endRecord() {
      values.append(trimmed())
      value = []
      if values != [""] { records.append((firstLine, values)) }
      values = []
    }
    var index = bytes.startIndex
    while index < bytes.endIndex {
      let byte = bytes[index]
      index += 1
      if isQuoted {
        if byte == UInt8(ascii: "\"") {
          if index < bytes.endIndex, bytes[index] == UInt8(ascii: "\"") {
            value.append(byte)
            index += 1
          } else {
            isQuoted = false
          }
        } else {
          if byte == UInt8(ascii: "\n") { line += 1 }
          value.append(byte)
        }
        continue
      }
      switch byte {
      case UInt8(ascii: "\"") where value.isEmpty: (isQuoted, openQuote) = (true, line)
      case UInt8(ascii: ","):
        values.append(trimmed())
        value = []
      case UInt8(ascii: "\r"): break
      case UInt8(ascii: "\n"):
        endRecord()
        line += 1
        firstLine = line
      default: value.append(byte)
      }
    }
    if isQuoted { throw CSVProblem(line: openQuote, "a quote is not closed") }
    if !value.isEmpty || !values.isEmpty { endRecord() }
    return records
  }
}

/// A line of a file that cannot be used.
package struct CSVProblem: Error, Sendable, CustomStringConvertible {
  let line: Int
  let reason: String

  package init(line: Int, _ reason: String) {
    self.line = line
    self.reason = reason
  }

  /// `line 3: a quote is not closed`
  package var description: String { "line \(line): \(reason)" }
}
