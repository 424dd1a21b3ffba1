/// The form of a response with figures.
enum NumbersFormat: Sendable, Hashable {
  case json, csv

  /// The form that a client prefers: CSV if it accepts `text/csv` more than JSON, or names it first.
  /// - Parameter accept: the field `Accept` (RFC 9110 §12.5.1).
  init(accept: String?) {
    var best: (weight: Double, format: NumbersFormat) = (0, .json)
    for element in (accept ?? "").split(separator: ",") {
      let parts = element.split(separator: ";").map { part in
        part.filter { $0 != " " && $0 != "\t" }.lowercased()
      }
      let format: NumbersFormat
      switch parts.first {
      case "text/csv", "text/*": format = .csv
      case "application/json", "application/*", "*/*": format = .json
      default: continue
      }
      let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 } ?? 1
      if weight > best.weight { best = (weight, format) }
    }
    self = best.format
  }
}
