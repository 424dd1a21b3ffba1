/// The form of a response with figures.
enum NumbersFormat: Sendable, Hashable {
  case json, csv

  /// The form that a client prefers: CSV if it accepts `text/csv` more than JSON, or names it first.
  /// - Parameter accept: the field `Accept` (RFC 9110 §12.5.1). An element with a malformed weight is ignored.
  init(accept: String?) {
    var best: (weight: Double, format: NumbersFormat) = (0, .json)
    for element in (accept ?? "").split(separator: ",") {
      let parts = element.split(separator: ";").map { Self.trimmed($0).lowercased() }
      let format: NumbersFormat
      switch parts.first {
      case "text/csv", "text/*": format = .csv
      case "application/json", "application/*", "*/*": format = .json
      default: continue
      }
      let parameter = parts.dropFirst().first { $0.hasPrefix("q=") }
      guard let weight = Self.weight(parameter?.dropFirst(2) ?? "1") else { continue }
      if weight > best.weight { best = (weight, format) }
    }
    self = best.format
  }

  /// A weight of RFC 9110 §12.4.2: 0 to 1 with at most three decimals; `nil` for any other text.
  private static func weight(_ text: Substring) -> Double? {
    let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    guard let whole = parts.first, whole == "0" || whole == "1" else { return nil }
    let decimals = parts.dropFirst().first ?? ""
    let digits = UInt8(ascii: "0")...UInt8(ascii: whole == "0" ? "9" : "0")
    guard decimals.utf8.count <= 3, decimals.utf8.allSatisfy({ digits.contains($0) }) else { return nil }
    return Double("\(whole).\(decimals)0")
  }

  /// The text without spaces and tabs at both ends.
  private static func trimmed(_ text: Substring) -> Substring {
    func isBlank(_ character: Character) -> Bool { character == " " || character == "\t" }
    var rest = text.drop(while: isBlank)
    while let last = rest.last, isBlank(last) { rest.removeLast() }
    return rest
  }
}
