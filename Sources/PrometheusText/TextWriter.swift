/// Writes metric families in text format 0.0.4.
struct TextWriter {
  private(set) var bytes: [UInt8] = []

  mutating func write(_ family: Family) {
    let name = family.description.name
    if family.isDescribed { line("# HELP \(name) \(Self.escaped(family.description.help))") }
    line("# TYPE \(name) \(family.description.kind.rawValue)")
    for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
      switch series {
      case .counter(let counter): sample(name, labels.text, Self.text(counter.value))
      case .gauge(let gauge): sample(name, labels.text, Self.text(gauge.value))
      case .histogram(let histogram): write(name, labels.text, histogram)
      }
    }
  }

  private mutating func write(_ name: String, _ labels: String, _ histogram: HistogramSeries) {
    let snapshot = histogram.snapshot
    let comma = labels.isEmpty ? "" : ","
    var total: UInt64 = 0
    for (count, bound) in zip(snapshot.counts, histogram.bounds + [.infinity]) {
      total += count
      sample("\(name)_bucket", "\(labels)\(comma)le=\"\(Self.text(bound))\"", "\(total)")
    }
    sample("\(name)_sum", labels, Self.text(snapshot.sum))
    sample("\(name)_count", labels, "\(total)")
  }

  private mutating func sample(_ name: String, _ labels: String, _ value: String) {
    line(labels.isEmpty ? "\(name) \(value)" : "\(name){\(labels)} \(value)")
  }

  private mutating func line(_ text: String) {
    bytes += text.utf8
    bytes.append(UInt8(ascii: "\n"))
  }

  /// Escapes a help text, in which quotation marks need no escapes.
  private static func escaped(_ help: String) -> String {
    help.replacing("\\", with: "\\\\").replacing("\n", with: "\\n")
  }

  private static func text(_ value: (whole: UInt64, amount: Double)) -> String {
    value.amount == 0 ? "\(value.whole)" : text(Double(value.whole) + value.amount)
  }

  /// A number as Go parses it; whole numbers without a fraction.
  static func text(_ value: Double) -> String {
    if value.isNaN { return "NaN" }
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    if let whole = Int64(exactly: value), abs(whole) < 1 << 53 { return "\(whole)" }
    return "\(value)"
  }
}
