/// Text with comma-separated values (RFC 4180).
struct CSVText: Sendable {
  private(set) var text = ""

  /// Appends a line. `nil` is an empty cell.
  mutating func append(_ cells: [String?]) {
    text += cells.map { $0.map(Self.quoted) ?? "" }.joined(separator: ",")
    text += "\r\n"
  }

  private static func quoted(_ cell: String) -> String {
    let special: Set<UInt8> = [
      UInt8(ascii: ","), UInt8(ascii: "\""), UInt8(ascii: "\r"), UInt8(ascii: "\n"),
    ]
    guard cell.utf8.contains(where: special.contains) else { return cell }
    return "\"" + cell.replacing("\"", with: "\"\"") + "\""
  }
}
