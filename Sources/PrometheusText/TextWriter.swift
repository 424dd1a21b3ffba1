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

/// The labels of a series in text format, without braces. They are sorted, so that their order makes no difference.
struct LabelSet: Hashable, Comparable, Sendable {
  let text: String
  private let names: [String]

  init(_ dimensions: [(String, String)]) {
    let labels = dimensions.map { (name: MetricName.sanitizedLabel($0.0), value: $0.1) }
      .sorted { $0.name < $1.name }
    names = labels.map(\.name)
    text = labels.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",")
  }

  /// The labels of the overflow series.
  var overflowing: LabelSet { LabelSet(names.map { ($0, "overflow") }) }

  static func < (left: LabelSet, right: LabelSet) -> Bool { left.text < right.text }

  /// Escapes backslashes, quotation marks and line feeds.
  private static func escaped(_ value: String) -> String {
    guard value.utf8.contains(where: { $0 == 0x5C || $0 == 0x22 || $0 == 0x0A }) else { return value }
    var bytes: [UInt8] = []
    for byte in value.utf8 {
      switch byte {
      case 0x5C: bytes += [0x5C, 0x5C]
      case 0x22: bytes += [0x5C, 0x22]
      case 0x0A: bytes += [0x5C, 0x6E]
      default: bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// Converts names to the characters that Prometheus allows. Labels of swift-metrics often have dots.
enum MetricName {
  /// `[a-zA-Z_:][a-zA-Z0-9_:]*`
  static func sanitized(_ name: String) -> String { sanitized(name, allowingColon: true) }

  /// `[a-zA-Z_][a-zA-Z0-9_]*`; `le` is reserved for histograms.
  static func sanitizedLabel(_ name: String) -> String {
    let sanitized = sanitized(name, allowingColon: false)
    return sanitized == "le" ? "exported_le" : sanitized
  }

  private static func sanitized(_ name: String, allowingColon: Bool) -> String {
    var bytes: [UInt8] = []
    for byte in name.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"):
        bytes.append(byte)
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        if bytes.isEmpty { bytes.append(UInt8(ascii: "_")) }
        bytes.append(byte)
      case UInt8(ascii: ":") where allowingColon: bytes.append(byte)
      default: bytes.append(UInt8(ascii: "_"))
      }
    }
    return bytes.isEmpty ? "_" : String(decoding: bytes, as: UTF8.self)
  }
}
