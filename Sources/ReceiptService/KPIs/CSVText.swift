/// Text with comma-separated values (RFC 4180).
///
/// A spreadsheet takes a cell that begins with `=`, `+`, `-`, `@`, a tab or a CR as a formula, and clients choose some texts.
/// Such a cell gets a leading `'`, unless it is a number.
struct CSVText: Sendable {
  private(set) var text = ""

  /// Appends a line. `nil` is an empty cell.
  mutating func append(_ cells: [String?]) {
    text += cells.map { $0.map { Self.quoted(Self.plain($0)) } ?? "" }.joined(separator: ",")
    text += "\r\n"
  }

  private static func plain(_ cell: String) -> String {
    let formulaStarts: Set<UInt8> = [
      UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "@"), UInt8(ascii: "\t"),
      UInt8(ascii: "\r"),
    ]
    guard let first = cell.utf8.first, formulaStarts.contains(first), !isNegativeNumber(cell) else {
      return cell
    }
    return "'" + cell
  }

  /// Whether a cell is a number with a minus sign, as PostgreSQL writes it, such as `-7.99`.
  private static func isNegativeNumber(_ cell: String) -> Bool {
    guard cell.utf8.first == UInt8(ascii: "-") else { return false }
    let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
    let parts = cell.utf8.dropFirst().split(
      separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
    return parts.allSatisfy { part in !part.isEmpty && part.allSatisfy { digits.contains($0) } }
  }

  private static func quoted(_ cell: String) -> String {
    let special: Set<UInt8> = [
      UInt8(ascii: ","), UInt8(ascii: "\""), UInt8(ascii: "\r"), UInt8(ascii: "\n"),
    ]
    guard cell.utf8.contains(where: special.contains) else { return cell }
    return "\"" + cell.replacing("\"", with: "\"\"") + "\""
  }
}
